//! Failed write-backs, and their reports to open files.

use super::SimDisk;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Errors of write-backs of a file, counted as Linux does (`errseq_t`). Each open file gets a report once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteBackErrors {
    count: u64,
    /// True if an open file got the report of the last error.
    is_reported: bool,
}

impl WriteBackErrors {
    /// Returns the mark of a file that is opened now. It gets no report of errors that another open file
    /// already has.
    pub fn mark(&self) -> AtomicU64 {
        AtomicU64::new(if self.is_reported { self.count } else { 0 })
    }

    /// Moves the mark of an open file. Returns true if there were errors since, which it must report.
    pub fn report(&mut self, mark: &AtomicU64) -> bool {
        let has_news = mark.swap(self.count, Relaxed) != self.count;
        self.is_reported |= has_news;
        has_news
    }

    /// Returns true if there was an error in this boot.
    pub fn is_any(&self) -> bool {
        self.count > 0
    }

    /// Notes an error.
    pub fn add(&mut self) {
        self.count += 1;
        self.is_reported = false;
    }
}

impl SimDisk {
    /// Makes the write-back of a range of a file fail now, before any barrier. As on Linux, its dirty sectors
    /// stay visible, count as clean, and are not on the medium. The next barrier or write-through of each
    /// open file reports the error once. A file that is opened after the first report gets none. Returns the
    /// number of sectors that were dirty; without one, nothing fails.
    pub fn fail_write_back(&self, dir: impl AsRef<Path>, name: &str, range: Range<u64>) -> usize {
        let mut s = self.lock();
        let names = s.directories.get(dir.as_ref());
        let Some(id) = names.and_then(|d| d.now.get(name).copied()) else {
            return 0;
        };
        let inode = s.inode(id);
        let sectors = inode.sectors(range.start..range.end.min(inode.size));
        let lost = inode.fail_write_back(sectors);
        if lost > 0 {
            s.note_failed(format!(
                "-- the write-back of {name}[{}..{}] FAILS: {lost} sectors",
                range.start, range.end
            ));
        }
        lost
    }
}
