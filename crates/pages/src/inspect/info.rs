//! What inspecting a page file returns.

use crate::error::Error;
use logforce_core::LogSummary;
use logforce_format::{Lsn, PageFileHeader, PageHeaderReject};
use std::fmt;

/// A header slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderSlot {
    /// Where it lies in the file `pages`, bytes.
    pub offset: u64,
    /// What it says, or why it is not believed. A crash while it was written leaves one that is not.
    pub header: Result<PageFileHeader, PageHeaderReject>,
    /// It is the one that counts.
    pub in_force: bool,
}

/// What the header slots, the lengths of files and the log's control file say.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileSummary {
    /// Both slots.
    pub slots: [HeaderSlot; 2],
    /// The current header.
    pub header: PageFileHeader,
    /// A process has it open.
    pub in_use: bool,
    /// Bytes of the file `pages`; a sparse one takes less on the disk.
    pub bytes: u64,
    /// Bytes of the file `map`, of a logged file that has one.
    pub map_bytes: Option<u64>,
    /// Of a logged file: its log, or why that cannot be used.
    pub log: Option<Result<LogSummary, Error>>,
}

/// Where the contents of a page are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    /// In the data file, whole: read, and its checksum fits.
    Whole,
    /// In the data file; it was read, and the file has no checksums to verify it by.
    Unverified,
    /// In the log: what the data file holds of it does not count.
    InLog,
    /// Nowhere: the log drops it, and the data file holds what it was before.
    Dropped,
    /// In the data file, damaged.
    Damaged,
    /// In the data file, which was being written there: not checked.
    InUse,
}

impl Held {
    /// Its name, as reports have it.
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

/// A page that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageInfo {
    /// Its number.
    pub page: u64,
    /// Of a copy-on-write file: its place.
    pub place: Option<u64>,
    /// Where it lies in the file `pages`, bytes.
    pub offset: u64,
    /// The checksum that was written down for it there; `None` if none was.
    pub crc: Option<u32>,
    /// Where its contents are.
    pub held: Held,
}

/// A node of the page table of a copy-on-write file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its level; 0 is the lowest.
    pub level: u32,
    /// Its place.
    pub place: u64,
    /// Where it lies in the file `pages`, bytes.
    pub offset: u64,
    /// Its checksum.
    pub crc: u32,
    /// The first page to which it leads.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Entries that lead somewhere.
    pub entries: u32,
}

/// What a redo record does with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It holds all bytes.
    Image,
    /// It holds parts.
    Ranges,
    /// The page is dropped.
    Discard,
}

impl ChangeKind {
    /// Its name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Image => "image",
            ChangeKind::Ranges => "ranges",
            ChangeKind::Discard => "discard",
        }
    }
}

/// A change of a page in a redo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeInfo {
    /// The page.
    pub page: u64,
    /// What is done with it.
    pub kind: ChangeKind,
    /// Bytes of contents in the record.
    pub bytes: u64,
}

/// A redo record that the data file may not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedoInfo {
    /// The number of the commit.
    pub commit: u64,
    /// Where the record begins in the log.
    pub start: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// All pages from this one on are dropped first.
    pub drop_from: Option<u64>,
    /// The file has at least so many pages afterwards.
    pub at_least: u64,
    /// Its pages, ascending.
    pub changes: Vec<ChangeInfo>,
}

/// Something that is damaged or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// What: a page, a node of the page table, a sector of the map, a header, the log.
    pub what: String,
    /// The page, if it is one.
    pub page: Option<u64>,
    /// The file, by its path within the directory.
    pub file: String,
    /// Where in the file, bytes; in the log's own files, as far as that is known.
    pub offset: u64,
    /// What was found there.
    pub found: String,
    /// An opening fails because of it. Other damage is met when it is read.
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

/// What a walk finds.
#[derive(Debug)]
pub enum Visit<'a> {
    /// A header slot; both come first.
    Header(&'a HeaderSlot),
    /// A commit in the log, in the log's order; they come before pages.
    Redo(&'a RedoInfo),
    /// A node of the page table, before what it leads to.
    Node(&'a NodeInfo),
    /// A page that was written; they come in ascending order, but for those that were being written.
    Page(&'a PageInfo),
    /// Something is missing or damaged.
    Damage(&'a Damage),
}

/// What the log holds beyond the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedoSummary {
    /// Redo begins here.
    pub from: Lsn,
    /// The end of the log.
    pub to: Lsn,
    /// Commits.
    pub commits: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Pages whose newest version is in the log.
    pub pages: u64,
}

/// The page table of a copy-on-write file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSummary {
    /// Nodes that were read.
    pub nodes: u64,
    /// Levels.
    pub depth: u32,
    /// Places in use are below this one.
    pub places: u64,
    /// Places below it that nothing reaches: commits use them next. `None` where part of the table is
    /// damaged or was not checked.
    pub free: Option<u64>,
}

/// What the next opening does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextOpening {
    /// Nothing is to be redone.
    Ready,
    /// It redoes commits from the log.
    Redoes {
        /// How many.
        commits: u64,
        /// Bytes of log from where redo begins to its end.
        bytes: u64,
    },
    /// It fails, and why.
    Refused(String),
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The last commit, as an opening has it.
    pub commit: u64,
    /// The number of pages then.
    pub page_count: u64,
    /// Pages that were written and not dropped.
    pub present: u64,
    /// Bytes of pages, nodes and sectors that were read and verified.
    pub checked_bytes: u64,
    /// Pages, nodes and sectors that another process was writing while they were looked at: not
    /// checked.
    pub in_use: u64,
    /// What is in the file and no part of its state: pages at or above the number of pages.
    pub unreachable: u64,
    /// Of a logged file.
    pub redo: Option<RedoSummary>,
    /// Of a copy-on-write file.
    pub table: Option<TableSummary>,
    /// Places that are damaged.
    pub damages: u64,
    /// What an opening would do once nobody has the file open.
    pub next_opening: NextOpening,
}

/// Where a page's contents were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageSource {
    /// It was never written, or dropped.
    Absent,
    /// In the data file.
    Data(PageInfo),
    /// In these records of the log: one that holds all of it, and later ones with parts.
    Log(Vec<Lsn>),
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundPage {
    /// Where it comes from.
    pub source: PageSource,
    /// Its contents; `None` where it is absent or damaged.
    pub bytes: Option<Vec<u8>>,
    /// What is damaged.
    pub damage: Option<Damage>,
}
