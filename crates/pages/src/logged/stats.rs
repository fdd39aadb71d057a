//! Counters for statistics. No decision depends on them.

use crate::types::Stats;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) commits: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) pages_committed: AtomicU64,
    pub(super) bytes_logged: AtomicU64,
    pub(super) images_logged: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) barriers: AtomicU64,
    pub(super) headers: AtomicU64,
    pub(super) waits: AtomicU64,
}

impl Counts {
    pub(super) fn stats(&self, memory: u64, dirty_pages: u64) -> Stats {
        Stats {
            commits: self.commits.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            pages_committed: self.pages_committed.load(Relaxed),
            bytes_logged: self.bytes_logged.load(Relaxed),
            images_logged: self.images_logged.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            writes: self.writes.load(Relaxed),
            barriers: self.barriers.load(Relaxed),
            headers: self.headers.load(Relaxed),
            waits: self.waits.load(Relaxed),
            memory,
            dirty_pages,
        }
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
