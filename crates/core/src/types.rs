//! What the log returns: where a record lies, what a commit guarantees, what an opening found.

use logforce_device::{Granted, Method, Verdict};
use logforce_format::{LogId, Lsn, RecoveryCase};
use std::path::PathBuf;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordRange {
    /// Its position, by which it is read.
    pub start: Lsn,
    /// Force up to here to make it durable. Exclusive.
    pub end: Lsn,
}

impl RecordRange {
    /// These records as [`Log::commit`](crate::Log::commit) would return them: for what was appended, and then
    /// forced with this answer.
    pub fn acknowledged(self, guarantee: Granted) -> Acknowledged {
        Acknowledged {
            start: self.start,
            end: self.end,
            guarantee,
        }
    }
}

/// The slices of the records of an append.
pub(crate) type RecordSlices<'a> = &'a [&'a [&'a [u8]]];

/// A record, or the records of a batch, of which the log has done what was asked for: see
/// [`guarantee`](Acknowledged::guarantee) for what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Acknowledged {
    /// The position of the record, or of the first of a batch, by which it is read.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// Guarantee of the records at this moment. After `commit` and `submit` it is at least the one that
    /// [`Options::require`](crate::Options::require) asks for. With a [`Policy`](crate::Policy) that does not
    /// wait for a force it may be [`Guarantee::Nothing`](crate::Guarantee::Nothing).
    pub guarantee: Granted,
}

/// Result of an opening, and the way in which the log forces since then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// This opening has created the log.
    pub created: bool,
    /// Exclusive end of what was recovered.
    pub end: Lsn,
    /// Why it ends there: what lies at `end` in place of another batch.
    pub case: RecoveryCase,
    /// Bytes of log that recovery has scanned.
    pub scanned: u64,
    /// Batches that recovery has scanned.
    pub batches: u64,
    /// Number of times that the log continued behind a range that a repair has cut, or in a segment of its own.
    pub resumed: u64,
    /// The log was closed cleanly the last time. [`RecoveryCase::CleanEnd`] is something else: after
    /// a crash between two writes that is the case too.
    pub clean: bool,
    /// Method by which the log forces.
    pub method: Method,
    /// Degree to which [`Log::guarantee`](crate::Log::guarantee) is to be believed: [`Verdict::Proven`] where
    /// `logforce powercut` has recorded that the device lost nothing, else what the device declares.
    pub verdict: Verdict,
    /// Evidence for the verdict, in words.
    pub evidence: String,
}

/// What the owner of a log needs to know to free space in it; see
/// [`Log::checkpoint_requests`](crate::Log::checkpoint_requests).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointDue {
    /// The log's identity.
    pub log_id: LogId,
    /// Its directory.
    pub path: PathBuf,
    /// Where the log begins.
    pub front: Lsn,
    /// Exclusive end of what is durable.
    pub durable: Lsn,
    /// Bytes of all segment files when the log asked.
    pub used: u64,
    /// The cap, bytes.
    pub limit: u64,
    /// Truncate here or above, and the log has space for another segment; if this is `durable`,
    /// truncate as far as possible. [`Log::truncate_front`](crate::Log::truncate_front) takes it, but
    /// only after your checkpoint covers what lies below.
    pub truncate_to: Lsn,
}

/// A durable record, lent by [`Reader::next_ref`](crate::Reader::next_ref).
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
