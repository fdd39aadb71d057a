//! Registry of the device calls in flight, so that a hanging call appears in the statistics.

use logforce_commit::metrics::histogram::shard;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

const FREE: u64 = 0;
/// Number of slots: eight for each of eight shards, so that each shard has a separate cache line.
const SLOTS: usize = 64;

/// Start times of the device calls in flight.
pub(super) struct CallbackState {
    /// Start time by the log's clock, nanoseconds; `FREE` in an unused slot.
    began: [AtomicU64; SLOTS],
}

impl Default for CallbackState {
    fn default() -> Self {
        CallbackState {
            began: std::array::from_fn(|_| AtomicU64::new(FREE)),
        }
    }
}

impl CallbackState {
    /// Registers a call and returns its slot; `None` if too many calls are in flight.
    pub(super) fn begin(&self, now: Duration) -> Option<usize> {
        let now = (now.as_nanos() as u64).max(FREE + 1);
        let first = shard() * 8;
        (first..first + SLOTS).map(|i| i % SLOTS).find(|&i| {
            let slot = &self.began[i];
            slot.compare_exchange(FREE, now, Relaxed, Relaxed).is_ok()
        })
    }

    pub(super) fn end(&self, slot: Option<usize>) {
        if let Some(slot) = slot {
            self.began[slot].store(FREE, Relaxed);
        }
    }

    /// Returns the age of the oldest call; zero if there is none.
    pub(super) fn oldest(&self, now: Duration) -> Duration {
        let began = self.began.iter().map(|s| s.load(Relaxed));
        let oldest = began.filter(|&at| at != FREE).min();
        oldest.map_or(Duration::ZERO, |at| {
            now.saturating_sub(Duration::from_nanos(at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_call_is_the_one_that_counts() {
        let calls = CallbackState::default();
        let at = Duration::from_micros;
        assert_eq!(calls.oldest(at(9)), Duration::ZERO);
        let first = calls.begin(Duration::ZERO);
        let second = calls.begin(at(5));
        assert_ne!(first, second);
        assert_eq!(calls.oldest(at(9)), at(9) - Duration::from_nanos(1));
        calls.end(first);
        assert_eq!(calls.oldest(at(9)), at(4));
        assert_eq!(calls.oldest(at(2)), Duration::ZERO);
        calls.end(second);
        assert_eq!(calls.oldest(at(9)), Duration::ZERO);
        let all: Vec<_> = (0..SLOTS).map(|_| calls.begin(at(1))).collect();
        assert!(all.iter().all(Option::is_some));
        let beyond = calls.begin(at(2));
        assert_eq!(beyond, None);
        calls.end(beyond);
        assert_eq!(calls.oldest(at(3)), at(2));
    }
}
