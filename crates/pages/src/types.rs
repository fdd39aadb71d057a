//! Results of the calls of a page file.

use logforce_core::Granted;

/// Acknowledgement that a commit has what its policy promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acknowledged {
    /// Number of the commit. Commits are numbered in their order, from 1. The number of a commit that was
    /// then refused for lack of space is skipped.
    pub commit: u64,
    /// Guarantee of the commit.
    pub guarantee: Granted,
}

/// Statistics of a page file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of committed transactions.
    pub commits: u64,
    /// Number of transactions refused because another had changed one of their pages.
    pub conflicts: u64,
    /// Number of pages that commits have changed.
    pub pages_committed: u64,
    /// Number of bytes appended to the log (0 in a copy-on-write file).
    pub bytes_logged: u64,
    /// Number of pages logged whole, at their first change after a checkpoint began.
    pub images_logged: u64,
    /// Number of bytes of pages and of the page table written to the data file.
    pub bytes_written: u64,
    /// Number of writes to the data file.
    pub writes: u64,
    /// Number of barriers on the data file, including its header.
    pub barriers: u64,
    /// Number of headers written: by checkpoints, or by commits of a copy-on-write file.
    pub headers: u64,
    /// Current number of bytes of page contents in memory.
    pub memory: u64,
    /// Number of pages that are in the log and not yet in the data file (0 in a copy-on-write file).
    pub dirty_pages: u64,
    /// Number of times a commit waited until the data file held more of the earlier commits.
    pub waits: u64,
}
