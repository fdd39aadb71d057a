//! What looking into a log answers.

use crate::error::Damage;
use crate::types::Record;
use logforce_format::{BatchKind, Epoch, LogId, Lsn, RecoveryCase};

/// A segment, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// File name.
    pub name: String,
    /// Position of its first byte.
    pub start: Lsn,
    /// Size in bytes.
    pub len: u64,
    /// Write unit in bytes.
    pub write_unit: u32,
    /// The opening that prepared it.
    pub epoch: Epoch,
}

/// A batch, as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchInfo {
    /// Where.
    pub lsn: Lsn,
    /// Where the next one begins.
    pub end: Lsn,
    /// In which file.
    pub file: String,
    /// Where in the file, bytes.
    pub offset: u64,
    /// What for.
    pub kind: BatchKind,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// What was durable when it was sealed.
    pub stamp: Lsn,
    /// Start of what it voids; equal to `lsn` for nothing.
    pub void_from: Lsn,
    /// Records and parts of records in it.
    pub frames: u32,
    /// Bytes of payload.
    pub payload_len: u32,
}

/// What a walk meets, in the log's order.
#[derive(Debug)]
pub enum Visit<'a> {
    /// A batch whose checksums are right.
    Batch(&'a BatchInfo),
    /// A whole record that is part of the log.
    Record {
        /// The record.
        entry: &'a Record,
        /// A stamp, or a close in order, says that it had become durable; and every batch is there
        /// that could have taken it back.
        proven: bool,
    },
    /// A whole record of an atomic append of which another part is lost. An append is in a log as a
    /// whole or not at all: this is no part of the log any more.
    Part(&'a Record),
    /// Something that must be there is not.
    Damage(&'a Damage),
}

/// What the directory and the control file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// The log.
    pub log_id: LogId,
    /// Records below are gone.
    pub front: Lsn,
    /// Exclusive end of the prepared segments.
    pub prepared_end: Lsn,
    /// Where the next opening starts to scan.
    pub anchor: Lsn,
    /// Closed in order, and both slots of the control file are whole to say so.
    pub clean: bool,
    /// The latest opening for writing.
    pub epoch: Epoch,
    /// Both slots of the control file are whole.
    pub control_whole: bool,
    /// `front`, `anchor` and `prepared_end` are the control file's word. Else, in
    /// [salvage](crate::Inspector::salvage) without a control file that can be used, they are where the first
    /// segment found begins and the last one ends: nobody knows what lay below and above, nor which of
    /// the records were truncated at the front.
    pub bounds_known: bool,
    /// Bytes of metadata; `None` if it was never set, or is damaged. Then `meta_whole` is false.
    pub meta_len: Option<u64>,
    /// Both slots of the metadata hold the same, or it was never set, and the control file says so.
    /// A crash may leave one slot.
    pub meta_whole: bool,
    /// Whether there ever was metadata is known: a slot of it is there, or one of the control file,
    /// which says so. Else, in [salvage](crate::Inspector::salvage), that there is none says nothing.
    pub meta_known: bool,
    /// Somebody has it open for writing.
    pub in_use: bool,
    /// The segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// Files kept for reuse: name, bytes.
    pub spares: Vec<(String, u64)>,
    /// Files named like segments that are not this log's, and why.
    pub strays: Vec<(String, String)>,
}

/// How a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Exclusive end of what was found.
    pub end: Lsn,
    /// Why there.
    pub case: RecoveryCase,
    /// Highest position that a stamp, or the anchor, proves to have been durable.
    pub proven_to: Lsn,
    /// Whole batches.
    pub batches: u64,
    /// Whole records that are part of the log.
    pub records: u64,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// Records in void ranges.
    pub voided: u64,
    /// Whole records of appends of which another part is lost.
    pub parts: u64,
    /// Places where something is missing or damaged.
    pub damages: u64,
}
