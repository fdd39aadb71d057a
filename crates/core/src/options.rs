//! Options of an opening.

use crate::error::Bytes;
use crate::error::{Error, Result};
use logforce_commit::advisor::Advisor;
use logforce_commit::method::MethodChoice;
use logforce_commit::write_concurrency::WriteLimits;
use logforce_device::{Directory, FileState, Guarantee, Method, Runtime, Verdict};
use logforce_format::{
    MAX_BATCH_LEN, MAX_RECORD_LEN, MAX_SEGMENT_LEN, MAX_WRITE_UNIT, MIN_SEGMENT_LEN, SegmentHeader,
};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Size of the reserve at the end of the prepared segments, in write units. No record may use it, so that
/// a log on a full disk can still be closed, opened again and truncated.
pub(crate) const RESERVED_UNITS: u64 = 16;

/// Maximum number of segments that one append may fill. The log prepares and forces each one separately
/// (10 ms on a fast disk), and keeps them open until all are forced.
const SEGMENTS_OF_AN_APPEND: u64 = 128;

/// Smallest write unit, bytes.
const MIN_WRITE_UNIT: u32 = 4096;
/// Maximum number of writes in flight. No device accepts more, and each needs memory.
const MAX_WRITES_IN_FLIGHT: usize = 1024;

/// Value of [`Options::environment`]. Its type is erased, because the environment is a layer above this
/// module.
#[derive(Clone)]
pub(crate) struct InEnvironment(pub(crate) Arc<dyn Any + Send + Sync>);

impl std::fmt::Debug for InEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InEnvironment")
    }
}

/// Default of [`Options::first_segment_size`] in an environment, bytes.
const FIRST_SEGMENT_IN_ENVIRONMENT: u64 = 256 << 10;

/// Mode of an opening: it must create a log, may create one, or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Create a log. Fail if there is one.
    CreateNew,
    /// Open an existing log. A directory that is missing or empty is an error, never a new log.
    OpenExisting,
    /// Open the log, or create one in a directory that is missing or empty.
    OpenOrCreate,
}

/// Options of a log. The crate `logforce` wraps them, and documents each option.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) method: Option<Method>,
    pub(crate) require: Guarantee,
    pub(crate) require_verdict: Verdict,
    pub(crate) segment_size: u64,
    pub(crate) first_segment_size: Option<u64>,
    pub(crate) write_unit: Option<u64>,
    pub(crate) max_batch: u64,
    pub(crate) buffer_size: u64,
    idle_stamp: Option<Duration>,
    pub(crate) max_spare_segments: usize,
    pub(crate) max_in_flight_writes: usize,
    pub(crate) large_write_size: u64,
    pub(crate) in_flight_at_first: Option<usize>,
    pub(crate) calibrate: bool,
    pub(crate) calibration_cache: Option<PathBuf>,
    advisor: Option<Arc<dyn Advisor>>,
    live_stats: Option<bool>,
    pub(crate) max_pinned_size: u64,
    pub(crate) max_log_size: Option<u64>,
    pub(crate) environment: Option<InEnvironment>,
    pub(crate) wait_for_lock: Duration,
    pub(crate) modes: Modes,
    pub(crate) write_limit_step: u64,
    pub(crate) force_of_bulk: u64,
    pub(crate) device_zeroes: bool,
}

/// Distance from the tail to the write limit when it is raised, bytes. An opening after a crash searches up
/// to the limit, at a few hundred MB/s on a cold disk. The limit is raised each time the tail has advanced
/// by about half of this distance, which takes a write of the control file.
const WRITE_LIMIT_STEP: u64 = 64 << 20;

/// Bytes per force at and above which new segments are not filled with zeroes. A filled segment is written
/// twice. But a force of blocks that were never written before also makes the filesystem record their
/// allocation; ext4 and xfs commit their journal for it. Measured there with `direct+dsync`
/// (`logforce bench --chunk SIZE --file-state fallocated,zeroed`), such a force takes 2.2 to 3.2 times as
/// long with 4 KiB to 256 KiB, and 1.5 to 1.8 times with 1 MiB.
const FORCE_OF_BULK: u64 = 1 << 20;

/// Permission bits of Unix for a log's files. `None`: only their owner may use them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Modes {
    /// Mode of files.
    pub file: Option<u32>,
    /// Mode of the directory.
    pub directory: Option<u32>,
}

impl Modes {
    /// Makes `dir` create its files with this mode, and sets the mode of the directory if it `is_new`.
    pub fn set_in(self, dir: &dyn Directory, is_new: bool) -> io::Result<()> {
        if let Some(mode) = self.file {
            dir.set_file_mode(mode);
        }
        match self.directory {
            Some(mode) if is_new => dir.set_mode(mode),
            _ => Ok(()),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            method: None,
            require: Guarantee::PowerLoss,
            require_verdict: Verdict::Declared,
            segment_size: 64 << 20,
            first_segment_size: None,
            write_unit: None,
            max_batch: 1 << 20,
            buffer_size: 4 << 20,
            idle_stamp: None,
            max_spare_segments: 2,
            max_in_flight_writes: 16,
            large_write_size: 64 << 10,
            in_flight_at_first: None,
            calibrate: true,
            calibration_cache: None,
            advisor: None,
            live_stats: None,
            max_pinned_size: 1 << 30,
            max_log_size: None,
            environment: None,
            wait_for_lock: Duration::ZERO,
            modes: Modes::default(),
            write_limit_step: WRITE_LIMIT_STEP,
            force_of_bulk: FORCE_OF_BULK,
            device_zeroes: false,
        }
    }
}

impl Options {
    /// Returns the defaults: safe against loss of power, 64 MiB segments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the method by which the log forces.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the minimum guarantee of a force. The opening fails if it is not available.
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }

    /// Sets the minimum verdict on the guarantee. The opening fails if the verdict is lower.
    pub fn require_verdict(mut self, verdict: Verdict) -> Self {
        self.require_verdict = verdict;
        self
    }

    /// Sets the size of new segments in bytes: 16 KiB to 4 GiB, a multiple of the write unit.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment_size = bytes;
        self
    }

    /// Sets the size of the first segments in bytes, with the rules of [`segment_size`](Self::segment_size),
    /// which it must not exceed.
    pub fn first_segment_size(mut self, bytes: u64) -> Self {
        self.first_segment_size = Some(bytes);
        self
    }

    /// Returns the size of the smallest segments that the log creates, bytes.
    pub(crate) fn smallest_segment(&self) -> u64 {
        let default = match self.environment {
            Some(_) => FIRST_SEGMENT_IN_ENVIRONMENT.min(self.segment_size),
            None => self.segment_size,
        };
        self.first_segment_size.unwrap_or(default)
    }

    /// Returns the maximum length of a record or an atomic append, in bytes.
    pub(crate) fn longest_append(&self) -> usize {
        let most = SEGMENTS_OF_AN_APPEND.saturating_mul(self.segment_size);
        most.min(MAX_RECORD_LEN as u64) as usize
    }

    /// Returns the time after the last force after which an idle log writes a stamp.
    pub(crate) fn stamps_after(&self) -> Duration {
        let default = match self.environment {
            Some(_) => Duration::from_secs(5),
            None => Duration::from_millis(50),
        };
        self.idle_stamp.unwrap_or(default)
    }

    /// Returns true if the log writes its statistics for other processes.
    pub(crate) fn writes_live_stats(&self) -> bool {
        self.live_stats.unwrap_or(self.environment.is_none())
    }

    /// Sets the unit of a device write in bytes, a power of two from 4096 to 65536. Needed only if the device
    /// reports a wrong unit.
    pub fn write_unit_size(mut self, bytes: u64) -> Self {
        self.write_unit = Some(bytes);
        self
    }

    /// Sets the maximum size of a batch (one device write) in bytes.
    pub fn max_batch_size(mut self, bytes: u64) -> Self {
        self.max_batch = bytes;
        self
    }

    /// Sets the memory for staged records, that is, for those that are appended and not yet written, in
    /// bytes. When it is full, `append` waits.
    pub fn buffer_size(mut self, bytes: u64) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// Sets the maximum time that an opening waits for another writer to close the log. After that it fails
    /// with [`Error::Locked`].
    pub fn wait_for_lock(mut self, at_most: Duration) -> Self {
        self.wait_for_lock = at_most;
        self
    }

    /// Returns the value of [`wait_for_lock`](Self::wait_for_lock).
    #[doc(hidden)]
    pub fn waits_for_lock(&self) -> Duration {
        self.wait_for_lock
    }

    /// Sets the permission bits of the files that the log creates, as in `chmod`. The umask does not apply.
    /// `0o640` lets the group read.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.modes.file = Some(mode);
        self
    }

    /// Sets the permission bits of the log's directory, if this opening creates it.
    pub fn directory_mode(mut self, mode: u32) -> Self {
        self.modes.directory = Some(mode);
        self
    }

    /// Returns the values of [`file_mode`](Self::file_mode) and [`directory_mode`](Self::directory_mode).
    #[doc(hidden)]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Sets the distance from the tail to the write limit when it is raised, bytes.
    #[doc(hidden)]
    pub fn write_limit_step(mut self, bytes: u64) -> Self {
        self.write_limit_step = bytes;
        self
    }

    /// Sets the maximum number of writes in flight before anything is measured. 0: one write, which waits for
    /// the threads whose commits were acknowledged last to commit again.
    #[doc(hidden)]
    pub fn in_flight_at_first(mut self, writes: usize) -> Self {
        self.in_flight_at_first = Some(writes);
        self
    }

    /// Sets the bytes per force at and above which new segments are only reserved, not filled with zeroes.
    #[doc(hidden)]
    pub fn force_of_bulk(mut self, bytes: u64) -> Self {
        self.force_of_bulk = bytes;
        self
    }

    /// Sets whether new segments are zeroed by a command of the device, where it has one, instead of writes.
    pub fn device_zeroes(mut self, tries: bool) -> Self {
        self.device_zeroes = tries;
        self
    }

    /// Sets the time after the last force after which an idle log writes a stamp for it.
    pub fn idle_stamp(mut self, after: Duration) -> Self {
        self.idle_stamp = Some(after);
        self
    }

    /// Sets the size in bytes at and above which a write counts as large.
    pub fn large_write_size(mut self, bytes: u64) -> Self {
        self.large_write_size = bytes;
        self
    }

    /// Sets the maximum number of device writes in flight, 1 to 1024.
    pub fn max_in_flight_writes(mut self, count: usize) -> Self {
        self.max_in_flight_writes = count.max(1);
        self
    }

    /// Enables or disables statistics for other processes: one page in the file `live` of the log's
    /// directory. The log never forces it, and writes it at most once a second, and only after some activity.
    pub fn live_stats(mut self, write: bool) -> Self {
        self.live_stats = Some(write);
        self
    }

    /// Sets the number of truncated segments that are kept for reuse.
    pub fn max_spare_segments(mut self, count: usize) -> Self {
        self.max_spare_segments = count;
        self
    }

    /// Enables or disables calibration. If no method is named and no result is cached, the opening measures
    /// the methods: for at most 300 ms, once per filesystem, at the first opening of a log, in a temporary
    /// file beside it.
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// Sets a directory (created if missing) in which programs of one user share their measurements, in the
    /// file `calibration`, and the results of power cuts, in the file `verdicts`.
    pub fn calibration_cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.calibration_cache = Some(dir.into());
        self
    }

    /// Returns the value of [`calibrate`](Self::calibrate).
    #[doc(hidden)]
    pub fn calibrates(&self) -> bool {
        self.calibrate
    }

    /// Returns the value of [`calibration_cache`](Self::calibration_cache).
    #[doc(hidden)]
    pub fn calibration_dir(&self) -> Option<&Path> {
        self.calibration_cache.as_deref()
    }

    /// Sets the advisor that chooses the method if none is named, unless an advisor is set already. The
    /// functions of the crate `logforce` that open a log set one that measures. A log opened in another way
    /// has no advisor.
    #[doc(hidden)]
    pub fn default_advisor(mut self, advisor: Arc<dyn Advisor>) -> Self {
        self.advisor.get_or_insert(advisor);
        self
    }

    /// Returns the requirements and the advisor, for the choice of the method in `dir`.
    pub(crate) fn method_choice<'a>(
        &'a self,
        dir: &'a Arc<dyn Directory>,
        runtime: &'a dyn Runtime,
    ) -> MethodChoice<'a> {
        MethodChoice {
            dir,
            runtime,
            // Segments are filled or reserved before a force writes to them.
            state: FileState::Zeroed,
            method: self.method,
            require: self.require,
            require_verdict: self.require_verdict,
            advisor: self.advisor.as_deref(),
            calibrate: self.calibrate,
            cache: self.calibration_cache.as_deref(),
        }
    }

    /// Returns the limits of the number of writes in flight.
    pub(crate) fn write_limits(&self) -> WriteLimits {
        WriteLimits {
            most: self.max_in_flight_writes,
            at_first: self.in_flight_at_first,
            large: self.large_write_size,
        }
    }

    /// Sets the maximum number of bytes of log that pins may keep below the front that
    /// [`Log::truncate_front`](crate::Log::truncate_front) has requested.
    pub fn max_pinned_size(mut self, bytes: u64) -> Self {
        self.max_pinned_size = bytes;
        self
    }

    /// Sets a cap on the size of all segment files in bytes, including spares and prepared segments. It must
    /// be at least 3 segments, and at least 2 segments plus 32 write units (128 KiB with units of 4 KiB).
    pub fn max_log_size(mut self, bytes: u64) -> Self {
        self.max_log_size = Some(bytes);
        self
    }

    /// Checks the values of all options, and returns the write unit on a device that needs at least `device`
    /// bytes. An option that fails with `device == 0` fails on every device.
    pub(crate) fn resolve_write_unit(&self, device: u32) -> Result<u32> {
        let bad = |option, why: String| Err(Error::Option { option, why });
        if self.require > Guarantee::PowerLoss {
            let why = format!(
                "a force cannot guarantee {}: require power-loss, attach a replica with Log::replicate, and \
                 commit with Policy::Replicated",
                self.require
            );
            return bad("require", why);
        }
        let bytes = |n: u32| Bytes(n.into());
        for (option, mode, least) in [
            ("file_mode", self.modes.file, 0o600),
            ("directory_mode", self.modes.directory, 0o700),
        ] {
            if let Some(mode) = mode.filter(|mode| mode & !0o777 != 0 || mode & least != least) {
                return bad(
                    option,
                    format!(
                        "0o{mode:o} must be between 0o{least:o} and 0o777, with all bits of 0o{least:o}"
                    ),
                );
            }
        }
        let mut unit = MIN_WRITE_UNIT;
        if let Some(size) = self.write_unit {
            match u32::try_from(size) {
                Ok(n) if n.is_power_of_two() && (MIN_WRITE_UNIT..=MAX_WRITE_UNIT).contains(&n) => {
                    unit = n;
                }
                _ => {
                    return bad(
                        "write_unit_size",
                        format!(
                            "{} is not a power of two from {} to {}",
                            Bytes(size),
                            bytes(MIN_WRITE_UNIT),
                            bytes(MAX_WRITE_UNIT)
                        ),
                    );
                }
            }
        }
        let unit = unit.max(device);
        if unit > MAX_WRITE_UNIT {
            return bad(
                "write_unit_size",
                format!(
                    "the device needs {}, the maximum is {}",
                    bytes(device),
                    bytes(MAX_WRITE_UNIT)
                ),
            );
        }
        if !SegmentHeader::geometry_is_valid(logforce_format::Lsn::ORIGIN, self.segment_size, unit)
        {
            return bad(
                "segment_size",
                format!(
                    "{} is not a multiple of the write unit ({}) from {} to {}",
                    Bytes(self.segment_size),
                    bytes(unit),
                    Bytes(MIN_SEGMENT_LEN.max(2 * SegmentHeader::data_offset(unit))),
                    Bytes(MAX_SEGMENT_LEN)
                ),
            );
        }
        let first = self.smallest_segment();
        if first > self.segment_size
            || !SegmentHeader::geometry_is_valid(logforce_format::Lsn::ORIGIN, first, unit)
        {
            return bad(
                "first_segment_size",
                format!(
                    "{} is not a multiple of the write unit ({}) from {} to the segment size, {}",
                    Bytes(first),
                    bytes(unit),
                    Bytes(MIN_SEGMENT_LEN.max(2 * SegmentHeader::data_offset(unit))),
                    Bytes(self.segment_size)
                ),
            );
        }
        if self.max_batch < u64::from(2 * unit)
            || self.max_batch > u64::from(MAX_BATCH_LEN)
            || !self.max_batch.is_multiple_of(unit.into())
        {
            return bad(
                "max_batch_size",
                format!(
                    "{} is not a multiple of the write unit ({}) from {} to {}",
                    Bytes(self.max_batch),
                    bytes(unit),
                    bytes(2 * unit),
                    bytes(MAX_BATCH_LEN)
                ),
            );
        }
        if self.buffer_size < self.max_batch {
            return bad(
                "buffer_size",
                format!(
                    "{} is less than max_batch_size, {}",
                    Bytes(self.buffer_size),
                    Bytes(self.max_batch)
                ),
            );
        }
        if self.max_in_flight_writes > MAX_WRITES_IN_FLIGHT {
            return bad(
                "max_in_flight_writes",
                format!(
                    "{} is not a number from 1 to {MAX_WRITES_IN_FLIGHT}",
                    self.max_in_flight_writes
                ),
            );
        }
        if let Some(cap) = self.max_log_size
            && let least = (3 * self.segment_size)
                .max(2 * self.segment_size + 2 * RESERVED_UNITS * u64::from(unit))
            && cap < least
        {
            return bad(
                "max_log_size",
                format!(
                    "{} is too small: at least {} with segments of {}",
                    Bytes(cap),
                    Bytes(least),
                    Bytes(self.segment_size)
                ),
            );
        }
        Ok(unit)
    }
}
