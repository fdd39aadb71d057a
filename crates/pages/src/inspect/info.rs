//! Results of inspecting a page file.

use crate::error::Error;
use logforce_core::LogSummary;
use logforce_format::{Lsn, PageFileHeader, PageHeaderReject};
use std::fmt;

/// Header slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderSlot {
    /// Offset in the file `pages` in bytes.
    pub offset: u64,
    /// Contents of the slot, or the reason to reject it. A crash while a slot is written leaves a rejected
    /// one.
    pub header: Result<PageFileHeader, PageHeaderReject>,
    /// True for the slot that counts.
    pub in_force: bool,
}

/// Contents of the header slots and of the log's control file, and the lengths of files.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileSummary {
    /// Both slots.
    pub slots: [HeaderSlot; 2],
    /// The current header.
    pub header: PageFileHeader,
    /// True if a process has the page file open.
    pub in_use: bool,
    /// Length of the file `pages` in bytes. A sparse file takes less space on the disk.
    pub bytes: u64,
    /// Length of the file `map` in bytes, for a logged file that has one.
    pub map_bytes: Option<u64>,
    /// Log of a logged file, or the reason why it cannot be used.
    pub log: Option<Result<LogSummary, Error>>,
}

/// Location of a page's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    /// In the data file and whole: the page was read, and its checksum matches.
    Whole,
    /// In the data file. The page was read, but the file has no checksums to verify it.
    Unverified,
    /// In the log. The contents in the data file do not count.
    InLog,
    /// Nowhere. The log drops the page, and the data file holds its earlier contents.
    Dropped,
    /// In the data file, damaged.
    Damaged,
    /// In the data file, but not checked, because a process was writing it.
    InUse,
}

impl Held {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Held::Whole => "whole",
            Held::Unverified => "unverified",
            Held::InLog => "in-log",
            Held::Dropped => "dropped",
            Held::Damaged => "damaged",
            Held::InUse => "in-use",
        }
    }
}

/// Page that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageInfo {
    /// Number of the page.
    pub page: u64,
    /// Place of the page, in a copy-on-write file.
    pub place: Option<u64>,
    /// Offset in the file `pages` in bytes.
    pub offset: u64,
    /// Checksum recorded for the contents at that offset; `None` if none was recorded.
    pub crc: Option<u32>,
    /// Location of the contents.
    pub held: Held,
}

/// Node of the page table of a copy-on-write file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Level of the node. The lowest level is 0.
    pub level: u32,
    /// Place of the node.
    pub place: u64,
    /// Offset in the file `pages` in bytes.
    pub offset: u64,
    /// Checksum of the node.
    pub crc: u32,
    /// First page that the node leads to.
    pub first: u64,
    /// Last page that the node leads to.
    pub last: u64,
    /// Number of entries in use.
    pub entries: u32,
}

/// Kind of a page's change in a redo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The record holds all bytes of the page.
    Image,
    /// The record holds parts of the page.
    Ranges,
    /// The record drops the page.
    Discard,
}

impl ChangeKind {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Image => "image",
            ChangeKind::Ranges => "ranges",
            ChangeKind::Discard => "discard",
        }
    }
}

/// Change of a page in a redo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeInfo {
    /// Number of the page.
    pub page: u64,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Number of bytes of contents in the record.
    pub bytes: u64,
}

/// Redo record that the data file may not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedoInfo {
    /// Number of the commit.
    pub commit: u64,
    /// LSN at which the record begins.
    pub start: Lsn,
    /// LSN at which the record ends.
    pub end: Lsn,
    /// All pages from this one on are dropped before the changes.
    pub drop_from: Option<u64>,
    /// Minimum number of pages of the file afterwards.
    pub at_least: u64,
    /// Changes of pages, in ascending order of their numbers.
    pub changes: Vec<ChangeInfo>,
}

/// Damaged or missing part of a page file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Damaged part: a page, a node of the page table, a sector of the map, a header, or the log.
    pub what: String,
    /// Number of the page, if the part is a page.
    pub page: Option<u64>,
    /// Path of the file within the directory.
    pub file: String,
    /// Offset in the file in bytes. For the log's own files, as far as it is known.
    pub offset: u64,
    /// Description of what was found there.
    pub found: String,
    /// True if an opening fails because of the damage. Other damage is found when it is read.
    pub refused: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage {
            what,
            file,
            offset,
            found,
            ..
        } = self;
        write!(f, "{what} in {file} at byte {offset}: {found}")
    }
}

/// Finding of a walk.
#[derive(Debug)]
pub enum Visit<'a> {
    /// Header slot. Both slots come first.
    Header(&'a HeaderSlot),
    /// Commit in the log. Commits come in the log's order, before pages.
    Redo(&'a RedoInfo),
    /// Node of the page table. It comes before everything that it leads to.
    Node(&'a NodeInfo),
    /// Page that was written. Pages come in ascending order, except those that were being written.
    Page(&'a PageInfo),
    /// Missing or damaged part.
    Damage(&'a Damage),
}

/// Summary of the changes in the log that the data file may not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedoSummary {
    /// LSN at which redo begins.
    pub from: Lsn,
    /// LSN of the end of the log.
    pub to: Lsn,
    /// Number of commits.
    pub commits: u64,
    /// Number of bytes of their records.
    pub bytes: u64,
    /// Number of pages whose newest version is in the log.
    pub pages: u64,
}

/// Summary of the page table of a copy-on-write file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSummary {
    /// Number of nodes that were read.
    pub nodes: u64,
    /// Number of levels.
    pub depth: u32,
    /// Exclusive end of the places in use.
    pub places: u64,
    /// Number of free places below that end, which commits use next. `None` if part of the table is damaged
    /// or was not checked.
    pub free: Option<u64>,
}

/// Outcome of the next opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextOpening {
    /// The opening has nothing to redo.
    Ready,
    /// The opening redoes commits from the log.
    Redoes {
        /// Number of commits.
        commits: u64,
        /// Number of bytes of log from the start of redo to the end.
        bytes: u64,
    },
    /// The opening fails for this reason.
    Refused(String),
}

/// Result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of the last commit that an opening recovers.
    pub commit: u64,
    /// Number of pages after that commit.
    pub page_count: u64,
    /// Number of pages that were written and not dropped.
    pub present: u64,
    /// Number of bytes of pages, nodes and sectors that were read and verified.
    pub checked_bytes: u64,
    /// Number of pages, nodes and sectors that were not checked, because another process was writing them. One
    /// more if the log was truncated each time that it was read.
    pub in_use: u64,
    /// Number of pages that are in the file but not part of its state: those at or above the number of pages.
    pub unreachable: u64,
    /// Summary of redo, for a logged file.
    pub redo: Option<RedoSummary>,
    /// Summary of the page table, for a copy-on-write file.
    pub table: Option<TableSummary>,
    /// Number of damaged or missing parts.
    pub damages: u64,
    /// Outcome of an opening once no process has the file open.
    pub next_opening: NextOpening,
}

/// Source of a page's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageSource {
    /// The page was never written, or was dropped.
    Absent,
    /// The contents are in the data file.
    Data(PageInfo),
    /// The contents are in these records of the log. The first record holds the whole page, later ones hold
    /// parts.
    Log(Vec<Lsn>),
}

/// Page, its source and its damage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundPage {
    /// Source of the contents.
    pub source: PageSource,
    /// Contents of the page; `None` if it is absent or damaged.
    pub bytes: Option<Vec<u8>>,
    /// Damage that was found, if any.
    pub damage: Option<Damage>,
}
