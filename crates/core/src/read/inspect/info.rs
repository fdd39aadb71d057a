//! What inspecting a log returns.

use crate::error::Damage;
use crate::types::Record;
use logforce_format::{BatchKind, Epoch, LogId, Lsn, RecoveryCase};

/// A segment of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// File name.
    pub name: String,
    /// Position of its first byte.
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
    /// Its position.
    pub lsn: Lsn,
    /// Exclusive end: where the next batch begins.
    pub end: Lsn,
    /// Name of the file that holds it.
    pub file: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Its kind.
    pub kind: BatchKind,
    /// Epoch of the opening that wrote it.
    pub epoch: Epoch,
    /// What was durable when it was sealed.
    pub stamp: Lsn,
    /// Start of the range that it voids; equal to `lsn` if it voids nothing.
    pub void_from: Lsn,
    /// Records and parts of records in it.
    pub frames: u32,
    /// Bytes of payload.
    pub payload_len: u32,
}

/// What a walk finds, in the log's order.
#[derive(Debug)]
pub enum Visit<'a> {
    /// A batch whose checksums are right.
    Batch(&'a BatchInfo),
    /// A whole record that is part of the log.
    Record {
        /// The record.
        record: &'a Record,
        /// A stamp or a clean close proves that it was durable, and every batch that could void it
        /// has been read.
        proven: bool,
    },
    /// A whole record of an atomic append of which another record is lost. An append is in the log
    /// as a whole or not at all, so this record is no longer part of the log.
    Part(&'a Record),
    /// Something that must exist is missing or damaged.
    Damage(&'a Damage),
}

/// What the directory and the control file contain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// The log's identity.
    pub log_id: LogId,
    /// Records below are gone.
    pub front: Lsn,
    /// Exclusive end of the prepared segments.
    pub prepared_end: Lsn,
    /// Where the next opening starts to scan.
    pub anchor: Lsn,
    /// The log was closed cleanly, and both slots of the control file are valid and say so.
    pub clean: bool,
    /// Epoch of the latest opening for writing.
    pub epoch: Epoch,
    /// Both slots of the control file are valid.
    pub control_whole: bool,
    /// `front`, `anchor` and `prepared_end` come from the control file. If false, in
    /// [salvage](crate::Inspector::salvage) without a usable control file, they are the start of
    /// the first segment found and the end of the last: what lay below and above is unknown, and so
    /// is which records were truncated at the front.
    pub bounds_known: bool,
    /// Bytes of metadata; `None` if it was never set, or if it is damaged, in which case
    /// `meta_whole` is false.
    pub meta_len: Option<u64>,
    /// Both slots of the metadata are valid and equal, or the control file says that it was never
    /// set. A crash may leave only one valid slot.
    pub meta_whole: bool,
    /// Whether it is known that there ever was metadata: from a slot of it, or from the control
    /// file. If false, in [salvage](crate::Inspector::salvage), missing metadata proves nothing.
    pub meta_known: bool,
    /// A process has it open for writing.
    pub in_use: bool,
    /// The segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// Files kept for reuse: name, bytes.
    pub spares: Vec<(String, u64)>,
    /// Files with names of segments that are not segments of this log, and why.
    pub strays: Vec<(String, String)>,
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Exclusive end of the log.
    pub end: Lsn,
    /// Why the log ends there.
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
    /// Whole records of atomic appends of which another record is lost.
    pub parts: u64,
    /// Places where something is missing or damaged.
    pub damages: u64,
}
