//! The memory for batches that the logs of an environment share.

use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A budget in bytes. It only counts, and decides when a batch is full; no thread waits for it.
pub(crate) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        MemoryBudget {
            limit,
            used: AtomicUsize::new(0),
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Whether all of it is in use.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used() >= self.limit
    }

    /// Takes `bytes` if the budget has them.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// Takes `bytes` also beyond the limit: a log must always be able to write its next batch.
    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}
