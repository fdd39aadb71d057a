//! Commits within a bound: the caller goes on at once, and the file's thread syncs in time.

use logforce_device::sync::{AtomicU64, Mutex};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// No sync is due.
const NEVER: u64 = u64::MAX;

/// Commits that callers have left to the file's thread.
pub(super) struct Bounded {
    /// Writes to be covered, and the time of the call; oldest first.
    waiting: Mutex<VecDeque<(u64, Duration)>>,
    /// Time at which the file's thread begins the next sync for them, nanoseconds.
    begin_at: AtomicU64,
}

impl Default for Bounded {
    fn default() -> Self {
        Bounded {
            waiting: Mutex::default(),
            begin_at: AtomicU64::new(NEVER),
        }
    }
}

impl Bounded {
    /// Asks for a sync that begins at `at` or before. Returns true if none was due until then.
    pub(super) fn ask(&self, at: Duration) -> bool {
        let at = u64::try_from(at.as_nanos()).unwrap_or(NEVER - 1);
        at < self.begin_at.fetch_min(at, SeqCst)
    }

    /// Returns the time until the next sync is due; `None` if none was asked for.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let at = self.begin_at.load(SeqCst);
        (at != NEVER).then(|| Duration::from_nanos(at).saturating_sub(now))
    }

    /// Takes the request for a sync. The caller then covers all writes that have completed.
    pub(super) fn begin(&self) {
        self.begin_at.store(NEVER, SeqCst);
    }

    /// Notes a commit whose caller goes on at `now`.
    pub(super) fn note(&self, target: u64, now: Duration) {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((target, now));
    }

    /// Returns the writes of the oldest commit that is as old as `bound` or older. Forgets those for which
    /// `is_reached` returns true.
    pub(super) fn overdue(
        &self,
        now: Duration,
        bound: Duration,
        is_reached: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        while waiting.front().is_some_and(|(to, _)| is_reached(*to)) {
            waiting.pop_front();
        }
        let (target, since) = waiting.front()?;
        (now.saturating_sub(*since) >= bound).then_some(*target)
    }
}
