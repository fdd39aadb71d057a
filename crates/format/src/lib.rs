//! Bytes of a Logforce log.
//!
//! `docs/format.md` is the normative description; the tests of this crate check that both agree. Everything
//! here is a pure function over bytes: no I/O, no clock, no `unsafe`. Whatever the bytes hold, decoding
//! returns a value or a reason, and never panics.
//!
//! - [`BatchHeader`]: the unit of one device write, and its link to its predecessor;
//! - [`frame`]: records, or parts of them, inside a batch;
//! - [`SegmentHeader`]: the part of the log that a file holds;
//! - [`Control`]: the state that must exist, with the anchor;
//! - [`Live`]: statistics of a running log, on which nothing depends;
//! - [`Meta`]: some bytes of the log's owner;
//! - [`PageFileHeader`], [`Redo`]: a page file's header, and the records that it puts into its log;
//! - [`decide`]: the decision of recovery about the state that it finds.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod batch;
mod bytes;
mod control;
mod decision;
pub mod frame;
mod ident;
mod live;
mod lsn;
mod meta;
mod names;
mod page_file;
#[doc(hidden)]
pub mod planted;
mod segment;

pub use batch::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Expected, MAX_BATCH_LEN, Reject, payload_crc, seal,
};
pub use control::{
    Anchor, CONTROL_FILE_LEN, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject,
    EPOCH_HISTORY, newest,
};
pub use decision::{Decision, NextBatch, RecoveryCase, decide};
pub use ident::{Epoch, LogId};
pub use live::{
    LIVE_COUNTERS, LIVE_LEN, LIVE_SUMMARIES, LIVE_SUMMARY_LEN, Live, LiveReject, LiveSummary,
};
pub use lsn::Lsn;
pub use meta::{
    MAX_META_LEN, META_SLOT_LEN, META_SLOT_OFFSETS, Meta, MetaReject, MetaSlots, newest_meta,
};
pub use page_file::{
    CopyOnWriteRoot, LoggedState, MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MAX_PAGE_SIZE, MAX_PAGES,
    MIN_PAGE_SIZE, MapEntry, MapReject, MapSector, PAGE_DATA_OFFSET, PAGE_FORMAT_VERSION,
    PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS, PageChange, PageFileHeader, PageFileId, PageFileKind,
    PageHeaderReject, REDO_HEADER_LEN, Redo, RedoRecord, RedoReject, RedoWriter, Resize,
    TABLE_ENTRY_LEN, TableEntry, TableReject, check_table_node, fan_out, newest_page_header,
    page_crc, place_crc, place_offset, set_table_entry, table_depth, table_entries, table_entry,
    table_index,
};
pub use segment::{
    MAX_SEGMENT_LEN, MAX_WRITE_UNIT, MIN_SEGMENT_LEN, MIN_WRITE_UNIT, SEGMENT_HEADER_LEN,
    SegmentHeader, SegmentReject,
};

/// Version of a log's format that this crate writes, and the only one it reads.
pub const FORMAT_VERSION: u16 = 1;

/// Largest record in bytes; also the largest sum of an atomic append, including frame headers.
pub const MAX_RECORD_LEN: usize = 64 << 20;

/// Rounds `value` up to a multiple of `unit`, which is a power of two.
pub fn align_up(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two());
    value.saturating_add(unit - 1) & !(unit - 1)
}
