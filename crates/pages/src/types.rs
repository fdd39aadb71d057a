//! What a page file answers.

use logforce_core::Granted;

/// A commit that has what its policy promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acknowledged {
    /// Its number: commits are numbered in their order, from 1. A number given to a commit that is then
    /// refused for lack of space is skipped.
    pub commit: u64,
    /// What it survives.
    pub guarantee: Granted,
}

/// What a page file has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were refused because another had changed one of their pages.
    pub conflicts: u64,
    /// Pages that commits have changed.
    pub pages_committed: u64,
    /// Bytes that were appended to the log (0 in a copy-on-write file).
    pub bytes_logged: u64,
    /// Pages that were logged whole: their first change after a checkpoint began.
    pub images_logged: u64,
    /// Bytes of pages, and of the page table, that were written to the data file.
    pub bytes_written: u64,
    /// Writes to the data file.
    pub writes: u64,
    /// Barriers on the data file, its header included.
    pub barriers: u64,
    /// Headers that were written: checkpoints, or commits of a copy-on-write file.
    pub headers: u64,
    /// Bytes of page contents in memory now.
    pub memory: u64,
    /// Pages that are in the log and not in the data file yet (0 in a copy-on-write file).
    pub dirty_pages: u64,
    /// How often a commit waited until the data file held more of what was committed before.
    pub waits: u64,
}
