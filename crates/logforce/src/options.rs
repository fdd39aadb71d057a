//! The options of a log, and opening it.

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

/// Openings at once by [`Options::open_many`]: most of an opening is waiting for the device.
const AT_ONCE: usize = 16;

/// Options of a log, and the calls that open it. By default an opening takes only a log that is there, and each
/// commit survives a loss of power.
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

    /// Sets whether an opening makes a log where the directory is missing or empty. Default `false`: such a
    /// directory is an error, so that a wrong path or a lost volume is never taken for a fresh log.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether an opening makes a new log, and fails if there is one; [`create`](Self::create) is ignored
    /// then. Default `false`.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Opens the log in the directory `path`. Recovers it first: when this returns, every acknowledged record is
    /// there and durable, and a record that was not acknowledged is either there and durable, or gone for good.
    ///
    /// The parent of a new log's directory must exist. Logs of one environment share what
    /// [`environment`](Self::environment) says.
    ///
    /// # Errors
    /// [`ErrorKind::NoLog`](crate::ErrorKind::NoLog) if there is none and [`create`](Self::create) is not set;
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) with [`create_new`](Self::create_new);
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if it is open already;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if [`require`](Self::require) cannot be met;
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged), after which no file of the log has changed.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Log> {
        // With an advisor that measures where the user named no method.
        self.with(|core| core.default_advisor(Arc::new(Calibrator)))
            .open_in(&OsSystem::new(), path.as_ref())
    }

    /// Opens the log in the directory `path` in a task, as [`open`](Self::open) does: recovery, and what is
    /// measured at the first opening, run in a thread of their own. Dropping the future after its first poll does
    /// not stop the opening; the log is closed then.
    pub async fn open_async(self, path: impl AsRef<Path>) -> Result<Log> {
        let path = path.as_ref().to_owned();
        let runtime = OsSystem::new().runtime();
        logforce_core::offload(&*runtime, &path.clone(), move || self.open(path)).await
    }

    /// Opens the logs in these directories, up to 16 at once: for a start after a crash, where each opening waits
    /// for the device several times. Returns the results in the order of the paths.
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
                // Where the system has no more threads, those that run open the rest.
                let _ = std::thread::Builder::new().spawn_scoped(scope, open);
            }
            open();
        });
        let opened = results.into_iter().map(|slot| {
            let result = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            // Each slot was filled: a panic in an opening has ended this call.
            result.unwrap_or(Err(crate::Error::Closed))
        });
        opened.collect()
    }

    /// Sets the least that a force must guarantee; opening fails where it is not available. Default
    /// [`Guarantee::PowerLoss`].
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.with(|core| core.require(guarantee))
    }

    /// Requires this verdict on the guarantee: opening fails if the verdict is lower. The default is
    /// [`Verdict::Declared`], which accepts the word of the party that answers for the guarantee. With
    /// [`Verdict::Unknown`] a log also opens where no party answers for it (a filesystem that a program or
    /// another machine serves). Its guarantee then prints as `power-loss?`. A method that lost data in a
    /// power cut stays refused, because it no longer guarantees [`Guarantee::PowerLoss`].
    pub fn require_verdict(self, verdict: Verdict) -> Self {
        self.with(|core| core.require_verdict(verdict))
    }

    /// Sets the method by which the log forces. Without it: the fastest method by measurement, if it is
    /// clearly faster than the default; else the default, `direct+dsync` where direct I/O is
    /// offered, else `dsync`. See [`calibrate`](Self::calibrate).
    pub fn method(self, method: Method) -> Self {
        self.with(|core| core.method(method))
    }

    /// Sets whether opening measures the methods, if none is named and no result is cached: for at most
    /// 300 ms, once per filesystem, at the first opening of a log, in a temporary file beside it.
    /// It measures nothing on a nearly full disk, in memory or over a network. `false` means the
    /// default method. Default `true`.
    ///
    /// This is about speed alone: the log never chooses a method that guarantees less than the
    /// default one.
    pub fn calibrate(self, calibrate: bool) -> Self {
        self.with(|core| core.calibrate(calibrate))
    }

    /// Sets the directory (created if missing) in which programs of one user share their measurements, in
    /// the file `calibration`, and the results of power cuts, in the file `verdicts`. Without it,
    /// or if it cannot be used, the measurements are in the log's own directory, in the file
    /// `calibration`; logs of one process share them in any case. A file `verdicts` in the log's
    /// own directory always counts. If it cannot be read, it may record a loss: the log offers at
    /// most [`Guarantee::OsCrash`] until it is repaired or moved away.
    pub fn calibration_cache(self, dir: impl Into<PathBuf>) -> Self {
        self.with(|core| core.calibration_cache(dir))
    }

    /// Sets the size of new segments in bytes: 16 KiB to 4 GiB, a multiple of the write unit. The default is
    /// 64 MiB. The log keeps at least one prepared segment after the current one. A record or an atomic
    /// append may be 128 times as large, and never larger than 64 MiB.
    pub fn segment_size(self, bytes: u64) -> Self {
        self.with(|core| core.segment_size(bytes))
    }

    /// Sets the size of the first segments in bytes, as [`segment_size`](Self::segment_size) and at most that.
    /// Later ones are larger, up to that size: each time twice as large, once the log holds four
    /// times as much, or while each lasts for less than four seconds. After a truncation they are
    /// small again. Without it, all segments have the same size; in
    /// an environment, 256 KiB.
    pub fn first_segment_size(self, bytes: u64) -> Self {
        self.with(|core| core.first_segment_size(bytes))
    }

    /// Sets a cap on the size of all segment files in bytes, spares and prepared segments included: at
    /// least 3 segments, and at least 2 segments and 128 KiB (32 write units). Default: none. Only
    /// an opening may exceed it, by one segment. Each force takes 4 KiB of it at least (a write unit),
    /// however short its records are.
    ///
    /// At the cap the log first breaks pins; then an append that needs another segment fails with
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) and is not accepted. The log continues after
    /// [`Log::truncate_front`], which it asks for in time by [`Log::checkpoint_requests`]. An append that needs
    /// more than the cap less two segments never fits.
    pub fn max_log_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_log_size(bytes))
    }

    /// Sets how many bytes of log pins may keep below the front that [`Log::truncate_front`] has
    /// requested. The log breaks pins further back, oldest first, at that call and whenever it
    /// prepares a segment. Default 1 GiB.
    pub fn max_pinned_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_pinned_size(bytes))
    }

    /// Sets the memory for records that are staged, that is, appended and not yet written, in bytes; beyond
    /// it `append` waits. Default 4 MiB. At least [`Options::max_batch_size`]: opening refuses less. A single
    /// larger append is accepted when nothing else is
    /// staged.
    pub fn buffer_size(self, bytes: u64) -> Self {
        self.with(|core| core.buffer_size(bytes))
    }

    /// Sets the maximum size of a batch (one device write) in bytes. Default 1 MiB. At most
    /// [`Options::buffer_size`]: opening refuses more.
    pub fn max_batch_size(self, bytes: u64) -> Self {
        self.with(|core| core.max_batch_size(bytes))
    }

    /// Sets how long an opening waits for another writer to close the log, before it fails with
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked). Default: not at all. For a restart in which the old process still ends.
    pub fn wait_for_lock(self, at_most: Duration) -> Self {
        self.with(|core| core.wait_for_lock(at_most))
    }

    /// Sets the permission bits of the files that the log makes, as in `chmod`, whatever the umask says:
    /// `0o640` lets the group read. With [`directory_mode`](Self::directory_mode) `0o750` a process
    /// of another user can then open the log by [`ReadOnly`](crate::ReadOnly). At least `0o600`; the
    /// default is that, less what the umask takes.
    ///
    /// Files that are there stay as they are: `chmod` those of an old log. The group is the one that
    /// the system gives new files: set the directory's group and its set-group-id bit where it is to
    /// be another one. Nothing changes on Windows, where files inherit the directory's access list.
    pub fn file_mode(self, mode: u32) -> Self {
        self.with(|core| core.file_mode(mode))
    }

    /// Sets the permission bits of the log's directory, where this opening makes it. At least `0o700`, which
    /// is the default; see [`file_mode`](Self::file_mode).
    pub fn directory_mode(self, mode: u32) -> Self {
        self.with(|core| core.directory_mode(mode))
    }

    /// Opens the log in an [`Environment`], whose threads, memory and open files it shares with other
    /// logs of this process.
    pub fn environment(self, environment: &Environment) -> Self {
        self.with(|core| core.environment(environment))
    }

    /// Sets what few programs need to set. Calls add up.
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

    /// Opens a log of any system, without an advisor.
    pub(crate) fn open_in(self, system: &dyn System, path: &Path) -> Result<Log> {
        let mode = mode(self.create, self.create_new);
        Log::open(system, path, mode, self.core)
    }

    /// Returns the options of the core.
    pub(crate) fn into_core(self) -> logforce_core::Options {
        self.core
    }
}

/// Returns what an opening may make.
pub(crate) fn mode(create: bool, create_new: bool) -> OpenMode {
    match (create, create_new) {
        (_, true) => OpenMode::CreateNew,
        (true, false) => OpenMode::OpenOrCreate,
        (false, false) => OpenMode::OpenExisting,
    }
}
