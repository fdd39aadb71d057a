//! Which versions of pages lie in memory: how many, and which of them leaves it next.

use logforce_format::Lsn;
use std::collections::VecDeque;

/// Entries of versions that are gone, beside twice as many as there are versions, at most.
const SLACK: usize = 64;

#[derive(Debug, Default)]
pub(super) struct ResidentVersions {
    count: usize,
    /// The versions, each a page and where its commit ends, oldest first. Those that are gone stay here
    /// until they are met, or until [`is_stale`](Self::is_stale).
    queue: VecDeque<(u64, Lsn)>,
}

impl ResidentVersions {
    /// How many versions lie in memory.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn added(&mut self, page: u64, end: Lsn) {
        self.count += 1;
        self.queue.push_back((page, end));
    }

    /// So many versions are not in memory any more.
    pub(super) fn removed(&mut self, count: usize) {
        self.count -= count;
    }

    /// Whether most entries are of versions that are gone.
    pub(super) fn is_stale(&self) -> bool {
        self.queue.len() > 2 * self.count + SLACK
    }

    pub(super) fn retain(&mut self, mut is_there: impl FnMut(u64, Lsn) -> bool) {
        self.queue.retain(|(page, end)| is_there(*page, *end));
    }

    /// How many entries there are to look at.
    pub(super) fn entries(&self) -> usize {
        self.queue.len()
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<(u64, Lsn)> {
        self.queue.pop_front()
    }

    /// Gives it back: its version stays.
    pub(super) fn put_back(&mut self, page: u64, end: Lsn) {
        self.queue.push_front((page, end));
    }
}
