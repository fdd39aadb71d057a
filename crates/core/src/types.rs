//! What the log answers: where a record lies, what a commit reached, what an opening found.

use crate::error::Damage;
use logforce_device::Guarantee;
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

/// A record that was made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Committed {
    /// Its position, by which it is read.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// What it survives.
    pub guarantee: Guarantee,
}

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log was made by this opening.
    pub created: bool,
    /// Exclusive end of what was recovered.
    pub end: Lsn,
    /// Why it ends there.
    pub case: RecoveryCase,
    /// Bytes of log that were read to find out.
    pub scanned: u64,
    /// Batches that were.
    pub batches: u64,
    /// How often the log went on behind a position that an opening had given up.
    pub resumed: u64,
    /// What was lost, if [`OnDamage::Truncate`](crate::OnDamage::Truncate) cut the log. It may lie
    /// behind `end`, where a segment is missing that nothing leads to any more.
    pub lost: Option<Damage>,
    /// The metadata was damaged, and given up under
    /// [`OnDamage::Truncate`](crate::OnDamage::Truncate).
    pub lost_meta: Option<Damage>,
    /// The log was closed in order the last time.
    pub clean: bool,
}

/// What the owner of a log needs to know to make room in it; see
/// [`Options::on_checkpoint_due`](crate::Options::on_checkpoint_due).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointDue {
    /// The log.
    pub log_id: LogId,
    /// Its directory.
    pub path: PathBuf,
    /// Where the log begins.
    pub front: Lsn,
    /// What is durable ends here.
    pub durable: Lsn,
    /// Bytes of all segment files.
    pub used: u64,
    /// The cap, bytes.
    pub limit: u64,
    /// Truncated to a record's start or end here or above, the log has room for another segment; if
    /// this is `durable`, as far as it can be truncated. Not itself such a boundary.
    pub truncate_to: Lsn,
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
