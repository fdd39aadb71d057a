//! Results of inspecting a log.

use crate::error::Damage;
use crate::types::Record;
use logforce_format::{BatchKind, Epoch, LogId, Lsn, RecoveryCase};

/// A segment of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// File name.
    pub name: String,
    /// LSN of its first byte.
    pub start: Lsn,
    /// Size in bytes.
    pub len: u64,
    /// Write unit in bytes.
    pub write_unit: u32,
    /// Epoch of the opening that prepared it.
    pub epoch: Epoch,
}

/// A batch of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchInfo {
    /// LSN of the batch.
    pub lsn: Lsn,
    /// Exclusive end, at which the next batch begins.
    pub end: Lsn,
    /// Name of the file that contains it.
    pub file: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Epoch of the opening that wrote it.
    pub epoch: Epoch,
    /// Durable LSN at the time when the batch was sealed.
    pub stamp: Lsn,
    /// Start of the range that it voids; equal to `lsn` if it voids nothing.
    pub void_from: Lsn,
    /// Number of records and parts of records in it.
    pub frames: u32,
    /// Size of the payload in bytes.
    pub payload_len: u32,
}

/// Items that a walk finds, in the log's order.
#[derive(Debug)]
pub enum Visit<'a> {
    /// A batch whose checksums are right.
    Batch(&'a BatchInfo),
    /// A whole record that is part of the log.
    Record {
        /// The record.
        record: &'a Record,
        /// True if a stamp or a clean close proves that it was durable, and every batch that could
        /// void it has been read.
        proven: bool,
    },
    /// A whole record of an atomic append that has lost another record. An append is in the log as a
    /// whole or not at all, so this record is no longer part of the log.
    Part(&'a Record),
    /// A part that must exist is missing or damaged.
    Damage(&'a Damage),
}

/// Contents of the directory and of the control file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// Identity of the log.
    pub log_id: LogId,
    /// Front of the log: records below it were truncated.
    pub front: Lsn,
    /// Exclusive end of the prepared segments.
    pub prepared_end: Lsn,
    /// LSN at which the next opening starts to scan.
    pub anchor: Lsn,
    /// True if the log was closed cleanly, and both slots of the control file are valid and confirm it.
    pub clean: bool,
    /// Epoch of the latest opening for writing.
    pub epoch: Epoch,
    /// True if both slots of the control file are valid.
    pub control_whole: bool,
    /// True if `front`, `anchor` and `prepared_end` come from the control file. It is false in
    /// [salvage](crate::Inspector::salvage) without a usable control file. Then they are the start of the
    /// first segment found and the end of the last one. The parts of the log below and above are unknown,
    /// and so is the number of records that were truncated at the front.
    pub bounds_known: bool,
    /// Size of the metadata in bytes. `None` if it was never set, or if it is damaged; if it is damaged,
    /// `meta_whole` is false.
    pub meta_len: Option<u64>,
    /// True if both slots of the metadata are valid and equal, or if the control file confirms that it was
    /// never set. A crash may leave only one valid slot.
    pub meta_whole: bool,
    /// True if a slot of the metadata, or the control file, shows whether metadata was ever set. It can be
    /// false in [salvage](crate::Inspector::salvage). Then missing metadata proves nothing.
    pub meta_known: bool,
    /// True if a process has the log open for writing.
    pub in_use: bool,
    /// Segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// Files kept for reuse: name and size in bytes.
    pub spares: Vec<(String, u64)>,
    /// Files that have names of segments but are not segments of this log: name and reason.
    pub strays: Vec<(String, String)>,
}

/// Result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Exclusive end of the log.
    pub end: Lsn,
    /// Reason why the log ends there.
    pub case: RecoveryCase,
    /// Highest LSN that a stamp, or the anchor, proves to have been durable.
    pub proven_to: Lsn,
    /// Number of whole batches.
    pub batches: u64,
    /// Number of whole records that are part of the log.
    pub records: u64,
    /// Total size of those records in bytes.
    pub record_bytes: u64,
    /// Number of records in void ranges.
    pub voided: u64,
    /// Number of whole records of atomic appends that have lost another record.
    pub parts: u64,
    /// Number of positions at which a part of the log is missing or damaged.
    pub damages: u64,
}
