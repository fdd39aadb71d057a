//! Options of a log, and the calls that open it.

use crate::disk::calibration::Calibrator;
use crate::{Environment, Guarantee, Log, Method, Result, Tuning, Verdict};
use logforce_core::OpenMode;
use logforce_device::System;
use logforce_device_os::OsSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of concurrent openings of [`Options::open_many`]: an opening mostly waits for the device.
const AT_ONCE: usize = 16;

/// Options of a log, and the calls that open it. By default a log must exist, and each commit survives a loss
/// of power.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir_in(".")?;
/// # let path = dir.path().join("sales.log");
/// # use logforce::Guarantee;
/// use logforce::Options;
/// let options = Options::new().max_log_size(1 << 30);
/// # let options = options.require(Guarantee::ProcessCrash);
/// let log = options.create(true).open(&path)?;
/// # log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    core: logforce_core::Options,
    create: bool,
    create_new: bool,
}

impl Options {
    /// Returns the defaults: an existing log, safe against loss of power, 64 MiB segments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an opening creates a log if the directory is missing or empty. Default `false`: such a
    /// directory is an error. So a wrong path or a lost volume never becomes a new, empty log.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether an opening creates a new log, and fails if there is one. If set, [`create`](Self::create)
    /// is ignored. Default `false`.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Opens the log in the directory `path`, and recovers it first. When this returns, every acknowledged
    /// record is present and durable. A record that was not acknowledged is either present and durable, or
    /// gone for good.
    ///
    /// The parent of a new log's directory must exist. Logs of one environment share its resources; see
    /// [`environment`](Self::environment).
    ///
    /// # Errors
    /// [`ErrorKind::NoLog`](crate::ErrorKind::NoLog) if there is no log and [`create`](Self::create) is not
    /// set;
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if there is one and
    /// [`create_new`](Self::create_new) is set;
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if the log is open already;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if [`require`](Self::require) cannot be met;
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) if acknowledged data is damaged; no file of the log
    /// has changed then.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Log> {
        // The advisor measures if the user has named no method.
        self.with(|core| core.default_advisor(Arc::new(Calibrator)))
            .open_in(&OsSystem::new(), path.as_ref())
    }

    /// Opens the log in the directory `path` like [`open`](Self::open), for use in a task: a separate thread
    /// runs recovery and the measurements of the first opening. Dropping the future after its first poll does
    /// not stop the opening; the log is closed when the opening ends.
    pub async fn open_async(self, path: impl AsRef<Path>) -> Result<Log> {
        let path = path.as_ref().to_owned();
        let runtime = OsSystem::new().runtime();
        logforce_core::offload(&*runtime, &path.clone(), move || self.open(path)).await
    }

    /// Opens the logs in these directories, up to 16 at once. This shortens a start after a crash, when each
    /// opening waits for the device several times. Returns the results in the order of the paths.
    ///
    /// ```no_run
    /// # fn main() -> logforce::Result<()> {
    /// use logforce::{EnvironmentOptions, Options};
    /// let environment = logforce::environment(&EnvironmentOptions::new())?;
    /// let options = Options::new().create(true).environment(&environment);
    /// let shards: Vec<_> = (0..1000).map(|n| format!("/var/lib/orders/{n}")).collect();
    /// for (path, log) in shards.iter().zip(options.open_many(&shards)) {
    ///     let log = log.map_err(|e| { eprintln!("{path}: {e}"); e })?;
    ///     println!("{path}: {} bytes", log.durable_lsn().0 - log.front_lsn().0);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_many<P: AsRef<Path> + Sync>(&self, paths: &[P]) -> Vec<Result<Log>> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<Log>>>> =
            paths.iter().map(|_| Mutex::default()).collect();
        let open = || {
            while let Some((path, slot)) = {
                let n = next.fetch_add(1, Ordering::Relaxed);
                paths.get(n).zip(results.get(n))
            } {
                let opened = self.clone().open(path);
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..paths.len().min(AT_ONCE) {
                // If the system cannot start more threads, the running ones open the remaining logs.
                let _ = std::thread::Builder::new().spawn_scoped(scope, open);
            }
            open();
        });
        let opened = results.into_iter().map(|slot| {
            let result = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            // Every slot is filled: a panic in an opening would have ended this call.
            result.unwrap_or(Err(crate::Error::Closed))
        });
        opened.collect()
    }

    /// Sets the minimum guarantee of a force. Opening fails if it is not available. Default
    /// [`Guarantee::PowerLoss`].
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.with(|core| core.require(guarantee))
    }

    /// Requires this verdict on the guarantee: opening fails if the verdict is lower. The default is
    /// [`Verdict::Declared`], which trusts the declaration of the system, filesystem or device. With
    /// [`Verdict::Unknown`] a log also opens if none of them declares it, as on a filesystem that a program
    /// or another machine serves. Its guarantee then prints as `power-loss?`. A method that lost data in a
    /// power cut stays refused, because it no longer guarantees [`Guarantee::PowerLoss`].
    pub fn require_verdict(self, verdict: Verdict) -> Self {
        self.with(|core| core.require_verdict(verdict))
    }

    /// Sets the method by which the log forces. Without it, the log uses the fastest measured method if that
    /// is clearly faster than the default one; see [`calibrate`](Self::calibrate). The default method is
    /// `direct+dsync` if the filesystem offers direct I/O, else `dsync`.
    pub fn method(self, method: Method) -> Self {
        self.with(|core| core.method(method))
    }

    /// Sets whether opening measures the methods, if none is named and no result is cached. The first opening
    /// of a log on a filesystem then measures for at most 300 ms, in a temporary file beside the log. It does
    /// not measure on a nearly full disk, in memory or over a network. With `false` the log uses the default
    /// method. Default `true`.
    ///
    /// Measuring affects speed only: the log never chooses a method that guarantees less than the default
    /// one.
    pub fn calibrate(self, calibrate: bool) -> Self {
        self.with(|core| core.calibrate(calibrate))
    }

    /// Sets the directory (created if missing) in which programs of one user share their measurements (file
    /// `calibration`) and the results of power cuts (file `verdicts`). Without it, or if it cannot be used,
    /// the measurements are in the file `calibration` of the log's directory. Logs of one process share them
    /// in any case.
    ///
    /// A file `verdicts` in the log's directory always counts. An unreadable one may record a loss: the log
    /// offers at most [`Guarantee::OsCrash`] until the file is repaired or moved away.
    pub fn calibration_cache(self, dir: impl Into<PathBuf>) -> Self {
        self.with(|core| core.calibration_cache(dir))
    }

    /// Sets the size of new segments in bytes: 16 KiB to 4 GiB, a multiple of the write unit. The default is
    /// 64 MiB. The log keeps at least one prepared segment after the current one. A record or an atomic
    /// append may be 128 times as large, and never larger than 64 MiB.
    pub fn segment_size(self, bytes: u64) -> Self {
        self.with(|core| core.segment_size(bytes))
    }

    /// Sets the size of the first segments in bytes: the limits of [`segment_size`](Self::segment_size)
    /// apply, and that size is the maximum. The size doubles, up to [`segment_size`](Self::segment_size),
    /// once the log is four times as large, or while a segment lasts for less than four seconds. After a
    /// truncation new segments are small again. Default: all segments have the same size; in an environment,
    /// 256 KiB.
    pub fn first_segment_size(self, bytes: u64) -> Self {
        self.with(|core| core.first_segment_size(bytes))
    }

    /// Sets the maximum size of all segment files in bytes, including spares and prepared segments: at least
    /// 3 segments, and at least 2 segments and 128 KiB (32 write units). Default: none. Only an opening may
    /// exceed it, by one segment. Each force uses at least 4 KiB of it (a write unit), however short its
    /// records are.
    ///
    /// At the maximum the log first breaks pins. Then an append that needs another segment fails with
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) and is not accepted. The log continues after
    /// [`Log::truncate_front`], which it requests in time through [`Log::checkpoint_requests`]. An append
    /// that needs more than the maximum less two segments never fits.
    pub fn max_log_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_log_size(bytes))
    }

    /// Sets the bytes of log that pins may keep below the front that [`Log::truncate_front`] has requested.
    /// The log breaks pins further back, oldest first, at that call and whenever it prepares a segment.
    /// Default 1 GiB.
    pub fn max_pinned_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_pinned_size(bytes))
    }

    /// Sets the memory, in bytes, for staged records: appended and not yet written. While it is full,
    /// `append` waits. Default 4 MiB. At least [`Options::max_batch_size`]: opening refuses less. A single
    /// larger append is accepted when nothing else is staged.
    pub fn buffer_size(self, bytes: u64) -> Self {
        self.with(|core| core.buffer_size(bytes))
    }

    /// Sets the maximum size of a batch (one device write) in bytes. Default 1 MiB. At most
    /// [`Options::buffer_size`]: opening refuses more.
    pub fn max_batch_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_batch_size(bytes))
    }

    /// Sets the time for which an opening waits until another writer closes the log, before it fails with
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked). Default: zero. Useful for a restart during which the
    /// old process is still shutting down.
    pub fn wait_for_lock(self, at_most: Duration) -> Self {
        self.with(|core| core.wait_for_lock(at_most))
    }

    /// Sets the permission bits of the files that the log creates, as in `chmod`, independent of the umask.
    /// `0o640` lets the group read. With [`directory_mode`](Self::directory_mode) `0o750` a process of
    /// another user can then open the log by [`ReadOnly`](crate::ReadOnly). At least `0o600`. Default:
    /// `0o600` less the bits of the umask.
    ///
    /// Existing files do not change: use `chmod` on the files of an old log. The system determines the group
    /// of new files: to have another one, set the directory's group and its set-group-id bit. This has no
    /// effect on Windows, where files inherit the directory's access list.
    pub fn file_mode(self, mode: u32) -> Self {
        self.with(|core| core.file_mode(mode))
    }

    /// Sets the permission bits of the log's directory if this opening creates it. At least `0o700`, which is
    /// the default; see [`file_mode`](Self::file_mode).
    pub fn directory_mode(self, mode: u32) -> Self {
        self.with(|core| core.directory_mode(mode))
    }

    /// Opens the log in an [`Environment`], whose threads, memory and open files it shares with other
    /// logs of this process.
    pub fn environment(self, environment: &Environment) -> Self {
        self.with(|core| core.environment(environment))
    }

    /// Sets options that few programs need. A later call keeps the settings of an earlier one that it does
    /// not set itself.
    pub fn tuning(self, tuning: Tuning) -> Self {
        self.with(|core| tuning.of(core))
    }

    /// Changes the options of the core.
    pub(crate) fn with(
        mut self,
        change: impl FnOnce(logforce_core::Options) -> logforce_core::Options,
    ) -> Self {
        self.core = change(self.core);
        self
    }

    /// Opens a log on any system, without an advisor.
    pub(crate) fn open_in(self, system: &dyn System, path: &Path) -> Result<Log> {
        let mode = mode(self.create, self.create_new);
        Log::open(system, path, mode, self.core)
    }

    /// Returns the options of the core.
    pub(crate) fn into_core(self) -> logforce_core::Options {
        self.core
    }
}

/// Returns the mode of an opening with these two options.
pub(crate) fn mode(create: bool, create_new: bool) -> OpenMode {
    match (create, create_new) {
        (_, true) => OpenMode::CreateNew,
        (true, false) => OpenMode::OpenOrCreate,
        (false, false) => OpenMode::OpenExisting,
    }
}
