//! Options of an opening.

use crate::advisor::Advisor;
use crate::error::Bytes;
use crate::error::{Error, Result};
use logforce_device::{Directory, Guarantee, Method, Verdict};
use logforce_format::{
    MAX_BATCH_LEN, MAX_RECORD_LEN, MAX_SEGMENT_LEN, MAX_WRITE_UNIT, MIN_SEGMENT_LEN, SegmentHeader,
};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Reserve, in write units, at the end of the prepared segments. No record may use it, so that a
/// log on a full disk can still be closed, opened again and truncated.
pub(crate) const RESERVED_UNITS: u64 = 16;

/// Maximum number of segments that one append may fill. The log prepares and forces each one separately (10
/// ms on a fast disk), and keeps them open until all are forced.
const SEGMENTS_OF_AN_APPEND: u64 = 128;

/// The smallest write unit in bytes.
const MIN_WRITE_UNIT: u32 = 4096;
/// Maximum of writes in flight: no device takes more, and each needs memory.
const MAX_WRITES_IN_FLIGHT: usize = 1024;

/// What [`Options::environment`] was set to. The environment is a layer above this one.
#[derive(Clone)]
pub(crate) struct InEnvironment(pub(crate) Arc<dyn Any + Send + Sync>);

impl std::fmt::Debug for InEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InEnvironment")
    }
}

/// The default of [`Options::first_segment_size`] in an environment, bytes.
const FIRST_SEGMENT_IN_ENVIRONMENT: u64 = 256 << 10;

/// Whether opening may create a log, or must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Create a log; fail if there is one.
    CreateNew,
    /// Open an existing log. A directory that is missing or empty is an error, never a new log.
    OpenExisting,
    /// Open the log, or create one in a directory that is missing or empty.
    OpenOrCreate,
}

/// Options of a log. The crate `logforce` wraps them, and documents each.
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
}

/// How far ahead of the tail the limit of what may be written is raised, bytes. An opening after a crash
/// searches up to it, at a few hundred MB/s from a cold disk; each half of it is a write of the control
/// file.
const WRITE_LIMIT_STEP: u64 = 64 << 20;

/// Bytes that a force takes along from which on filling costs more than it saves. A filled segment is
/// written twice; a force of blocks that were never written before also records where they are, on
/// ext4 and xfs by a commit of the filesystem's journal. Measured there with `direct+dsync`
/// (`logforce bench --chunk SIZE --file-state fallocated,zeroed`), that makes a force of 4 KiB to
/// 256 KiB take 2.2 to 3.2 times as long, and one of 1 MiB 1.5 to 1.8 times.
const FORCE_OF_BULK: u64 = 1 << 20;

/// Who may use a log's files, as permission bits of Unix. `None`: their owner only.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Modes {
    /// Of files.
    pub file: Option<u32>,
    /// Of the directory.
    pub directory: Option<u32>,
}

impl Modes {
    /// Has the files in `dir` made so, and the directory itself if it `is_new`.
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
        }
    }
}

impl Options {
    /// The defaults: safe against loss of power, 64 MiB segments.
    pub fn new() -> Self {
        Self::default()
    }

    /// The method by which the log forces.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// The least that a force must guarantee; opening fails where it is not available.
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }

    /// Requires this verdict on the guarantee: opening fails if the verdict is lower.
    pub fn require_verdict(mut self, verdict: Verdict) -> Self {
        self.require_verdict = verdict;
        self
    }

    /// Sets the size of new segments in bytes: 16 KiB to 4 GiB, a multiple of the write unit.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment_size = bytes;
        self
    }

    /// Size of the first segments in bytes, as [`segment_size`](Self::segment_size) and at most that.
    pub fn first_segment_size(mut self, bytes: u64) -> Self {
        self.first_segment_size = Some(bytes);
        self
    }

    /// The size of the smallest segments that the log makes, bytes.
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

    /// How long after the last force an idle log writes a stamp.
    pub(crate) fn stamps_after(&self) -> Duration {
        let default = match self.environment {
            Some(_) => Duration::from_secs(5),
            None => Duration::from_millis(50),
        };
        self.idle_stamp.unwrap_or(default)
    }

    /// Whether the log writes its statistics for other processes.
    pub(crate) fn writes_live_stats(&self) -> bool {
        self.live_stats.unwrap_or(self.environment.is_none())
    }

    /// The unit of a device write in bytes, a power of two from 4096 to 65536, where the device reports it
    /// wrong.
    pub fn write_unit_size(mut self, bytes: u64) -> Self {
        self.write_unit = Some(bytes);
        self
    }

    /// Maximum size of a batch (one device write) in bytes.
    pub fn max_batch_size(mut self, bytes: u64) -> Self {
        self.max_batch = bytes;
        self
    }

    /// Memory for records that are staged, that is, appended and not yet written, in bytes; beyond it
    /// `append` waits.
    pub fn buffer_size(mut self, bytes: u64) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// How long an opening waits for another writer to close the log, before it fails with
    /// [`Error::Locked`].
    pub fn wait_for_lock(mut self, at_most: Duration) -> Self {
        self.wait_for_lock = at_most;
        self
    }

    /// What [`wait_for_lock`](Self::wait_for_lock) was set to.
    #[doc(hidden)]
    pub fn waits_for_lock(&self) -> Duration {
        self.wait_for_lock
    }

    /// The permission bits of the files that the log makes, as in `chmod`, whatever the umask says: `0o640`
    /// lets the group read.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.modes.file = Some(mode);
        self
    }

    /// The permission bits of the log's directory, where this opening makes it.
    pub fn directory_mode(mut self, mode: u32) -> Self {
        self.modes.directory = Some(mode);
        self
    }

    /// What [`file_mode`](Self::file_mode) and [`directory_mode`](Self::directory_mode) were set to.
    #[doc(hidden)]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// How far ahead of the tail a log writes down that it may write, bytes.
    #[doc(hidden)]
    pub fn write_limit_step(mut self, bytes: u64) -> Self {
        self.write_limit_step = bytes;
        self
    }

    /// How many writes may be in flight before anything is measured; 0: one, which waits for the commits
    /// that were acknowledged last to come again.
    #[doc(hidden)]
    pub fn in_flight_at_first(mut self, writes: usize) -> Self {
        self.in_flight_at_first = Some(writes);
        self
    }

    /// Bytes per force from which new segments are only reserved.
    #[doc(hidden)]
    pub fn force_of_bulk(mut self, bytes: u64) -> Self {
        self.force_of_bulk = bytes;
        self
    }

    /// Sets the time after the last force after which an idle log writes a stamp for it.
    pub fn idle_stamp(mut self, after: Duration) -> Self {
        self.idle_stamp = Some(after);
        self
    }

    /// Bytes from which a write is a large one.
    pub fn large_write_size(mut self, bytes: u64) -> Self {
        self.large_write_size = bytes;
        self
    }

    /// Sets the maximum number of device writes in flight, 1 to 1024.
    pub fn max_in_flight_writes(mut self, count: usize) -> Self {
        self.max_in_flight_writes = count.max(1);
        self
    }

    /// Sets whether the log writes its statistics into the file `live` of its directory, for other processes to
    /// read: one page, never forced, at most once a second and only after some activity.
    pub fn live_stats(mut self, write: bool) -> Self {
        self.live_stats = Some(write);
        self
    }

    /// Sets the number of truncated segments that are kept for reuse.
    pub fn max_spare_segments(mut self, count: usize) -> Self {
        self.max_spare_segments = count;
        self
    }

    /// Sets whether opening measures the methods, if none is named and no result is cached: for at most 300 ms,
    /// once per filesystem, at the first opening of a log, in a temporary file beside it.
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// A directory (created if missing) in which programs of one user share their measurements, in the file
    /// `calibration`, and the results of power cuts, in the file `verdicts`.
    pub fn calibration_cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.calibration_cache = Some(dir.into());
        self
    }

    /// What [`calibrate`](Self::calibrate) was set to.
    #[doc(hidden)]
    pub fn calibrates(&self) -> bool {
        self.calibrate
    }

    /// What [`calibration_cache`](Self::calibration_cache) was set to.
    #[doc(hidden)]
    pub fn calibration_dir(&self) -> Option<&Path> {
        self.calibration_cache.as_deref()
    }

    /// The advisor that chooses the method if none is named, unless one is set already. The
    /// functions of the crate `logforce` that open a log set one that measures; a log opened in
    /// another way has none.
    #[doc(hidden)]
    pub fn default_advisor(mut self, advisor: Arc<dyn Advisor>) -> Self {
        self.advisor.get_or_insert(advisor);
        self
    }

    /// The advisor, whatever the options say.
    pub(crate) fn advisor(&self) -> Option<&Arc<dyn Advisor>> {
        self.advisor.as_ref()
    }

    /// The advisor, unless the user has named a method or turned calibration off.
    pub(crate) fn advisor_to_ask(&self) -> Option<&Arc<dyn Advisor>> {
        let open = self.method.is_none() && self.calibrate;
        self.advisor.as_ref().filter(|_| open)
    }

    /// Sets the bytes of log that pins may keep below the front that [`Log::truncate_front`](crate::Log::truncate_front) has requested.
    pub fn max_pinned_size(mut self, bytes: u64) -> Self {
        self.max_pinned_size = bytes;
        self
    }

    /// A cap on the size of all segment files in bytes, spares and prepared segments included: at least 3
    /// segments, and at least 2 segments and 128 KiB (32 write units).
    pub fn max_log_size(mut self, bytes: u64) -> Self {
        self.max_log_size = Some(bytes);
        self
    }

    /// Checks all numbers, and returns the write unit on a device that needs at least `device`
    /// bytes. An option that fails with `device == 0` fails on every device.
    pub(crate) fn resolve_write_unit(&self, device: u32) -> Result<u32> {
        let bad = |option, why: String| Err(Error::Option { option, why });
        let bytes = |n: u32| Bytes(n.into());
        for (option, mode, least) in [
            ("file_mode", self.modes.file, 0o600),
            ("directory_mode", self.modes.directory, 0o700),
        ] {
            if let Some(mode) = mode.filter(|mode| mode & !0o777 != 0 || mode & least != least) {
                return bad(
                    option,
                    format!(
                        "0o{mode:o} is not from 0o{least:o} to 0o777 with all bits of the owner's"
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
                    "the device needs {}, at most {} are possible",
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
                    "{} is not a multiple of the write unit, {}, from {} to {}",
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
                    "{} is not a multiple of the write unit, {}, from {} to the segment size, {}",
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
                    "{} is not a multiple of the write unit, {}, from {} to {}",
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
                    "{} is too many: 1 to {MAX_WRITES_IN_FLIGHT}",
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
                    "{} is too little: at least {} with segments of {}",
                    Bytes(cap),
                    Bytes(least),
                    Bytes(self.segment_size)
                ),
            );
        }
        Ok(unit)
    }
}
