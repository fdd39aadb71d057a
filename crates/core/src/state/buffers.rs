//! Memory of batches. A batch begins with a small buffer and grows with its records, since most batches
//! contain few records, and a process may have many logs.

use crate::environment::MemoryBudget;
use logforce_device::AlignedBuf;
use std::sync::Arc;

/// Size of a batch's first buffer, bytes.
const FIRST: usize = 16 << 10;

/// The buffers of one log.
pub(crate) struct Buffers {
    /// Buffers of earlier batches, for reuse.
    pool: Vec<AlignedBuf>,
    /// Maximum number of buffers in `pool`.
    pool_limit: usize,
    /// Size of the first buffer of a batch, bytes.
    first: usize,
    /// Size of the largest buffer, bytes.
    largest: usize,
    /// Alignment of a buffer's address, bytes: sufficient for direct writes to the device.
    alignment: usize,
    /// Memory that the log shares with others in an environment.
    budget: Option<Arc<MemoryBudget>>,
    /// Bytes that this log has taken from the budget.
    taken: usize,
}

impl Buffers {
    /// Creates buffers for batches of at most `largest` bytes, a multiple of the write unit `unit`.
    pub(crate) fn new(
        largest: usize,
        unit: usize,
        pool_limit: usize,
        budget: Option<Arc<MemoryBudget>>,
    ) -> Self {
        Buffers {
            pool: Vec::new(),
            pool_limit,
            first: FIRST.max(2 * unit).min(largest),
            largest,
            alignment: unit.max(4096),
            budget,
            taken: 0,
        }
    }

    /// Returns the smallest extent, in bytes, at which a batch may be full, except at a segment's end.
    pub(super) fn smallest_full(&self) -> usize {
        match self.budget {
            Some(_) => self.first,
            None => self.largest,
        }
    }

    /// Returns true if staged records must be written before more are staged, for lack of memory.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget.as_ref().is_some_and(|b| b.is_exhausted())
    }

    /// Returns a buffer for a new batch.
    pub(super) fn take(&mut self) -> AlignedBuf {
        if let Some(buf) = self.pool.pop() {
            return buf;
        }
        if let Some(budget) = &self.budget {
            budget.take(self.first);
            self.taken += self.first;
        }
        AlignedBuf::zeroed(self.first, self.alignment)
    }

    /// Replaces `buf`, of which `used` bytes are in use, with a larger one of at least `needed` bytes.
    /// Returns false, and keeps `buf`, if the environment's memory does not suffice.
    pub(super) fn grow(&mut self, buf: &mut AlignedBuf, used: usize, needed: usize) -> bool {
        let len = needed.next_power_of_two().min(self.largest);
        let more = len.saturating_sub(buf.len());
        if let Some(budget) = &self.budget {
            if !budget.try_take(more) {
                return false;
            }
            self.taken += more;
        }
        let mut grown = AlignedBuf::zeroed(len, self.alignment);
        grown[..used].copy_from_slice(&buf[..used]);
        *buf = grown;
        true
    }

    /// Takes back buffers of batches that were written.
    pub(super) fn recycle(&mut self, bufs: Vec<AlignedBuf>) {
        for buf in bufs {
            // In an environment a log keeps only one small buffer, so that other logs can use the rest.
            let keep = match self.budget {
                Some(_) => self.pool.is_empty() && buf.len() == self.first,
                None => self.pool.len() < self.pool_limit,
            };
            if keep {
                self.pool.push(buf);
            } else {
                self.release(buf.len());
            }
        }
    }

    /// Drops the buffers that no batch uses.
    pub(super) fn shrink(&mut self) {
        let idle = std::mem::take(&mut self.pool);
        self.release(idle.iter().map(|b| b.len()).sum());
    }

    fn release(&mut self, bytes: usize) {
        if let Some(budget) = &self.budget {
            self.taken -= bytes;
            budget.release(bytes);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Also releases the buffers that a failed write has lost.
        self.release(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = 4096;

    #[test]
    fn a_buffer_grows_with_its_contents_up_to_the_largest() {
        let mut buffers = Buffers::new(1 << 20, UNIT, 2, None);
        let mut buf = buffers.take();
        assert_eq!(buf.len(), FIRST);
        buf[..3].copy_from_slice(b"abc");
        assert!(buffers.grow(&mut buf, 3, FIRST + 1));
        assert_eq!((buf.len(), &buf[..4]), (2 * FIRST, &b"abc\0"[..]));
        assert!(buffers.grow(&mut buf, 3, 1 << 20));
        assert_eq!(buf.len(), 1 << 20);
        buffers.recycle(vec![buf]);
        assert_eq!(buffers.take().len(), 1 << 20, "is used again");
    }

    #[test]
    fn logs_share_a_budget_and_give_back_all_they_took() {
        let budget = Arc::new(MemoryBudget::new(4 * FIRST));
        let buffers = || Buffers::new(1 << 20, UNIT, 8, Some(budget.clone()));
        let (mut a, mut b) = (buffers(), buffers());
        let (mut of_a, mut of_b) = (a.take(), b.take());
        assert!(a.grow(&mut of_a, 0, 2 * FIRST));
        assert!(!b.grow(&mut of_b, 0, 4 * FIRST), "more than is left");
        assert!(!b.is_exhausted());
        assert!(b.grow(&mut of_b, 0, 2 * FIRST));
        assert!(a.is_exhausted() && b.is_exhausted());
        let extra = b.take();
        assert_eq!(budget.used(), 5 * FIRST, "the first buffer is always there");
        b.recycle(vec![of_b, extra]);
        assert_eq!(budget.used(), 3 * FIRST, "one small buffer is kept");
        b.shrink();
        assert_eq!(budget.used(), 2 * FIRST);
        drop(a);
        assert_eq!(budget.used(), 0, "also what is still in a write");
    }
}
