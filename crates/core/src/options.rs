use crate::advisor::Advisor;
use crate::error::Bytes;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::types::CheckpointDue;
use logforce_device::{Guarantee, Method};
use logforce_format::{
    MAX_BATCH_LEN, MAX_SEGMENT_LEN, MAX_WRITE_UNIT, MIN_SEGMENT_LEN, SegmentHeader,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Write units at the end of the prepared segments that no record may take, so that a log on a full
/// disk can still be closed, opened again and truncated.
pub(crate) const KEPT_UNITS: u64 = 16;

/// The smallest write unit in bytes.
const MIN_WRITE_UNIT: u32 = 4096;
/// So many writes may be in flight: no device takes more, and memory is kept for each.
const MAX_WRITES_IN_FLIGHT: usize = 1024;

/// The owner's callback of [`Options::on_checkpoint_due`].
#[derive(Clone)]
pub(crate) struct CheckpointCallback(pub(crate) Arc<dyn Fn(CheckpointDue) + Send + Sync>);

impl std::fmt::Debug for CheckpointCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckpointCallback")
    }
}

/// Whether opening may make a log, or must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Make one; fail if there is one.
    CreateNew,
    /// There must be one. A directory that is missing or was emptied is an error, never a fresh
    /// log.
    OpenExisting,
    /// Open the one that is there; make one in a directory that is missing or empty.
    OpenOrCreate,
}

/// What opening does when acknowledged data turns out to be damaged. To read around damage without
/// changing anything, use the inspector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnDamage {
    /// Fail, and say where (the default).
    Refuse,
    /// The log ends before the damage; what follows is lost, reported in
    /// [`RecoveryReport::lost`](crate::RecoveryReport::lost), and kept until
    /// [`Log::discard_given_up`](crate::Log::discard_given_up). Where the damage hit what `truncate_back` wrote, records that it took back may be there
    /// again. Damaged metadata counts as never set, which
    /// [`RecoveryReport::lost_meta`](crate::RecoveryReport::lost_meta) reports until it is set again.
    Truncate,
}

/// How to open a log.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) method: Option<Method>,
    pub(crate) require: Guarantee,
    pub(crate) segment_size: u64,
    pub(crate) write_unit: Option<u32>,
    pub(crate) max_batch: u32,
    pub(crate) buffer_size: usize,
    pub(crate) on_damage: OnDamage,
    pub(crate) idle_stamp: Duration,
    pub(crate) max_spare_segments: usize,
    pub(crate) max_in_flight_writes: usize,
    pub(crate) pipeline_threshold: usize,
    pub(crate) policy: Policy,
    pub(crate) calibrate: bool,
    pub(crate) calibration_cache: Option<PathBuf>,
    advisor: Option<Arc<dyn Advisor>>,
    pub(crate) live_stats: bool,
    pub(crate) max_pinned_bytes: u64,
    pub(crate) max_log_size: Option<u64>,
    pub(crate) on_checkpoint_due: Option<CheckpointCallback>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            method: None,
            require: Guarantee::PowerLoss,
            segment_size: 64 << 20,
            write_unit: None,
            max_batch: 1 << 20,
            buffer_size: 4 << 20,
            on_damage: OnDamage::Refuse,
            idle_stamp: Duration::from_millis(50),
            max_spare_segments: 2,
            max_in_flight_writes: 4,
            pipeline_threshold: 64 << 10,
            policy: Policy::Force,
            calibrate: true,
            calibration_cache: None,
            advisor: None,
            live_stats: true,
            max_pinned_bytes: 1 << 30,
            max_log_size: None,
            on_checkpoint_due: None,
        }
    }
}

impl Options {
    /// The defaults: safe against loss of power, 64 MiB segments.
    pub fn new() -> Self {
        Self::default()
    }

    /// How a force is done. Without it: the fastest that measuring shows here, if that is clearly
    /// faster than the default; else the default, `direct+dsync` where direct I/O is offered, else
    /// `dsync`. See [`calibrate`](Self::calibrate).
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// The least that a force must guarantee; opening fails where it cannot be had. Default
    /// [`Guarantee::PowerLoss`].
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }

    /// Size of new segments in bytes, 16 KiB to 4 GiB, a multiple of the write unit. Default
    /// 64 MiB. At least one segment beyond the current one is kept prepared.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment_size = bytes;
        self
    }

    /// The unit of a device write in bytes, a power of two from 4096 to 65536, where the device's
    /// own answer is not to be trusted. A smaller one than the device's is raised to it.
    pub fn write_unit(mut self, bytes: u32) -> Self {
        self.write_unit = Some(bytes);
        self
    }

    /// The longest batch in bytes (the unit of one device write). Default 1 MiB.
    pub fn max_batch(mut self, bytes: u32) -> Self {
        self.max_batch = bytes;
        self
    }

    /// Memory for records that are appended and not written, in bytes; beyond it `append` waits.
    /// Default 4 MiB. One append larger than this is taken when nothing else is staged.
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// What to do about damage. Default: refuse.
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.on_damage = on_damage;
        self
    }

    /// After how long without a force the last one's extent is written down as a stamp. Default
    /// 50 ms. It bounds what a damaged tail can be told from.
    pub fn idle_stamp(mut self, after: Duration) -> Self {
        self.idle_stamp = after;
        self
    }

    /// Bytes that must wait for a further write to be begun beside those in flight. Default 64 KiB:
    /// below, one write of all that came in the meantime is cheaper, since up to there a write costs
    /// about what the smallest one does.
    pub fn pipeline_threshold(mut self, bytes: usize) -> Self {
        self.pipeline_threshold = bytes;
        self
    }

    /// What a commit waits for, where it does not say itself. Default [`Policy::Force`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How many device writes may be in flight at once, 1 to 1024. Default 4. More than one is begun
    /// only where many bytes wait. Methods that need a barrier have one in flight, and so has `dsync`
    /// through the system's cache: of several there, one may be told another's failure, and that one
    /// success.
    pub fn max_in_flight_writes(mut self, count: usize) -> Self {
        self.max_in_flight_writes = count.max(1);
        self
    }

    /// Whether the log writes its statistics into the file `live` of its directory, for other
    /// processes to read: one page, never forced, at most once a second and only when something has
    /// happened. Default true. What goes wrong with it is ignored.
    pub fn live_stats(mut self, write: bool) -> Self {
        self.live_stats = write;
        self
    }

    /// How many truncated segments to keep for reuse. Default 2.
    pub fn max_spare_segments(mut self, count: usize) -> Self {
        self.max_spare_segments = count;
        self
    }

    /// Whether the methods are measured where none is named and nothing is known yet: at most
    /// 300 ms, once for a filesystem, at the first opening of a log, in a file beside it that is
    /// removed again. Nothing is measured on a nearly full disk, in memory or over a network.
    /// `false` takes the default method. Default `true`.
    ///
    /// It is about speed alone: no method is chosen that guarantees less than the default one.
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// A directory kept for that (made if it is missing) in which programs of one user share what
    /// they measured, in its file `calibration`, and what cuts of power have shown, in its file
    /// `verdicts`. Without it, or where it cannot be used, the former is kept in the log's own
    /// directory, in the file `calibration`; within a process logs share it in any case. A file
    /// `verdicts` in the log's own directory counts in any case. One that cannot be read may tell of a
    /// loss: no more than [`Guarantee::OsCrash`] is to be had until it is mended or moved away.
    pub fn calibration_cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.calibration_cache = Some(dir.into());
        self
    }

    /// Whom to ask for the method where none is named, unless somebody is set already. The
    /// functions of the crate `logforce` that open a log set one that measures; a log opened in
    /// another way has none.
    pub fn default_advisor(mut self, advisor: Arc<dyn Advisor>) -> Self {
        self.advisor.get_or_insert(advisor);
        self
    }

    /// The advisor, whatever the user settled.
    pub(crate) fn advisor(&self) -> Option<&Arc<dyn Advisor>> {
        self.advisor.as_ref()
    }

    /// The advisor, unless the user settled the method or wants no measuring.
    pub(crate) fn advisor_to_ask(&self) -> Option<&Arc<dyn Advisor>> {
        let open = self.method.is_none() && self.calibrate;
        self.advisor.as_ref().filter(|_| open)
    }

    /// How many bytes of log pins may keep below the front that [`Log::truncate_front`] was asked
    /// for. Those further back are broken, oldest first, when it is asked and whenever a segment is
    /// prepared. Default 1 GiB.
    ///
    /// [`Log::truncate_front`]: crate::Log::truncate_front
    pub fn max_pinned_bytes(mut self, bytes: u64) -> Self {
        self.max_pinned_bytes = bytes;
        self
    }

    /// A cap on the size of all segment files, spares and prepared ones included: bytes, at least 3
    /// segments, and 2 segments and 128 KiB (32 write units). Default: none. Only opening may exceed it, by one segment.
    ///
    /// At the cap an append that needs another segment gets [`Error::Full`], with nothing accepted,
    /// and the log goes on after [`Log::truncate_front`]; pins give way before that. With
    /// [`Options::on_checkpoint_due`] the owner is told in time, and such an append waits while the callback
    /// runs.
    ///
    /// [`Log::truncate_front`]: crate::Log::truncate_front
    pub fn max_log_size(mut self, bytes: u64) -> Self {
        self.max_log_size = Some(bytes);
        self
    }

    /// What to call when a checkpoint is due: when the last segment that fits under
    /// [`Options::max_log_size`] was prepared, so while about a whole segment is still free, and
    /// again when an append finds no room. It should take a checkpoint and
    /// [`truncate_front`](crate::Log::truncate_front) the log to
    /// [`CheckpointDue::truncate_to`] or above.
    ///
    /// It runs in a thread of its own, one call at a time, and may append, commit and truncate. A
    /// few KiB are kept for what it appends, also where others have filled the log. An append in
    /// that thread that finds no room all the same is refused with [`Error::Full`] at once, since
    /// it would wait for itself. It must not wait for other threads that append: they may be waiting
    /// for it. A panic in it counts as its end.
    ///
    /// `close` waits for it, and then lets go of it: a callback that holds a clone of the log keeps
    /// the log open until somebody closes it.
    pub fn on_checkpoint_due(mut self, callback: Arc<dyn Fn(CheckpointDue) + Send + Sync>) -> Self {
        self.on_checkpoint_due = Some(CheckpointCallback(callback));
        self
    }

    /// The write unit on a device that needs at least `device` bytes, and a check of all numbers.
    /// What is refused where the device needs nothing is refused on every device.
    pub(crate) fn resolve_write_unit(&self, device: u32) -> Result<u32> {
        let bad = |option, why: String| Err(Error::Option { option, why });
        let bytes = |n: u32| Bytes(n.into());
        if let Some(unit) = self.write_unit
            && !(unit.is_power_of_two() && (MIN_WRITE_UNIT..=MAX_WRITE_UNIT).contains(&unit))
        {
            return bad(
                "write_unit",
                format!(
                    "{} is not a power of two from {} to {}",
                    bytes(unit),
                    bytes(MIN_WRITE_UNIT),
                    bytes(MAX_WRITE_UNIT)
                ),
            );
        }
        let unit = self.write_unit.unwrap_or(MIN_WRITE_UNIT).max(device);
        if unit > MAX_WRITE_UNIT {
            return bad(
                "write_unit",
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
        if self.max_batch < 2 * unit
            || self.max_batch > MAX_BATCH_LEN
            || !self.max_batch.is_multiple_of(unit)
        {
            return bad(
                "max_batch",
                format!(
                    "{} is not a multiple of the write unit, {}, from {} to {}",
                    bytes(self.max_batch),
                    bytes(unit),
                    bytes(2 * unit),
                    bytes(MAX_BATCH_LEN)
                ),
            );
        }
        if self.buffer_size < self.max_batch as usize {
            return bad(
                "buffer_size",
                format!(
                    "{} is less than max_batch, {}",
                    Bytes(self.buffer_size as u64),
                    bytes(self.max_batch)
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
                .max(2 * self.segment_size + 2 * KEPT_UNITS * u64::from(unit))
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
