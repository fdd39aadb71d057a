//! Versions of pages in memory: their number, and the order in which they leave it.

use logforce_format::Lsn;
use std::collections::VecDeque;

/// Number of queue entries, in addition to twice the number of versions, above which gone versions are
/// removed.
const SLACK: usize = 64;

#[derive(Debug, Default)]
pub(super) struct ResidentVersions {
    count: usize,
    /// Versions, each as a page and the end of its commit, oldest first. Entries of gone versions stay until
    /// they are met, or until [`is_stale`](Self::is_stale).
    queue: VecDeque<(u64, Lsn)>,
}

impl ResidentVersions {
    /// Returns the number of versions in memory.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn added(&mut self, page: u64, end: Lsn) {
        self.count += 1;
        self.queue.push_back((page, end));
    }

    /// Records that `count` versions have left memory.
    pub(super) fn removed(&mut self, count: usize) {
        self.count -= count;
    }

    /// Returns true if most entries are of versions that are gone.
    pub(super) fn is_stale(&self) -> bool {
        self.queue.len() > 2 * self.count + SLACK
    }

    pub(super) fn retain(&mut self, mut is_there: impl FnMut(u64, Lsn) -> bool) {
        self.queue.retain(|(page, end)| is_there(*page, *end));
    }

    /// Returns the number of entries.
    pub(super) fn entries(&self) -> usize {
        self.queue.len()
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<(u64, Lsn)> {
        self.queue.pop_front()
    }

    /// Puts the entry back, because its version stays.
    pub(super) fn put_back(&mut self, page: u64, end: Lsn) {
        self.queue.push_front((page, end));
    }
}
