//! Results of the log: the range of a record, the guarantee of a commit, the report of an opening.

use logforce_device::{Granted, Method, Verdict};
use logforce_format::{LogId, Lsn, RecoveryCase};
use std::path::PathBuf;

/// Range of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordRange {
    /// Position of the record, for reading it.
    pub start: Lsn,
    /// Exclusive end. Force up to here to make the record durable.
    pub end: Lsn,
}

impl RecordRange {
    /// Returns the result that [`Log::commit`](crate::Log::commit) would return, for records that were
    /// appended and then forced. `guarantee` is the result of the force.
    pub fn acknowledged(self, guarantee: Granted) -> Acknowledged {
        Acknowledged {
            start: self.start,
            end: self.end,
            guarantee,
        }
    }
}

/// Slices of the records of an append.
pub(crate) type RecordSlices<'a> = &'a [&'a [&'a [u8]]];

/// A record, or the records of a batch, that the log has committed with the given
/// [`guarantee`](Acknowledged::guarantee).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Acknowledged {
    /// Position of the record, or of the first one of a batch, for reading it.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// Guarantee of the records at this moment. After `commit` and `submit` it is at least the one that
    /// [`Options::require`](crate::Options::require) asks for. With a [`Policy`](crate::Policy) that does not
    /// wait for a force it may be [`Guarantee::Nothing`](crate::Guarantee::Nothing).
    pub guarantee: Granted,
}

/// Result of an opening, and the method by which the log forces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// True if this opening has created the log.
    pub created: bool,
    /// Exclusive end of the recovered records.
    pub end: Lsn,
    /// Reason for the end: the contents at `end` instead of another batch.
    pub case: RecoveryCase,
    /// Bytes of log that recovery has scanned.
    pub scanned: u64,
    /// Batches that recovery has scanned.
    pub batches: u64,
    /// Number of times that a repair or an opening has voided a range and continued the log at the start of
    /// a later segment.
    pub resumed: u64,
    /// True if the log was closed cleanly the last time. This differs from [`RecoveryCase::CleanEnd`], which
    /// a crash between two writes leaves as well.
    pub clean: bool,
    /// Method by which the log forces.
    pub method: Method,
    /// Verdict on [`Log::guarantee`](crate::Log::guarantee): [`Verdict::Proven`] if `logforce powercut` has
    /// recorded that the device lost nothing, else according to the device's declaration.
    pub verdict: Verdict,
    /// Evidence for the verdict, in words.
    pub evidence: String,
}

/// Request for a checkpoint, with the numbers that the owner of a log needs to free space; see
/// [`Log::checkpoint_requests`](crate::Log::checkpoint_requests).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointDue {
    /// Identity of the log.
    pub log_id: LogId,
    /// Directory of the log.
    pub path: PathBuf,
    /// Front of the log.
    pub front: Lsn,
    /// Exclusive end of the durable records.
    pub durable: Lsn,
    /// Bytes of all segment files at the time of the request.
    pub used: u64,
    /// The cap, bytes.
    pub limit: u64,
    /// Position at or above which a truncation frees space for another segment. If it equals `durable`,
    /// truncate as far as possible. Pass it to [`Log::truncate_front`](crate::Log::truncate_front), but only
    /// after your checkpoint covers the records below.
    pub truncate_to: Lsn,
}

/// A durable record, borrowed from a reader by [`Reader::next_ref`](crate::Reader::next_ref).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordRef<'a> {
    /// Its position.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// Its bytes.
    pub data: &'a [u8],
}

/// A durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// Its bytes.
    pub data: Vec<u8>,
}
