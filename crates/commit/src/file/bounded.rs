//! Commits within a bound: the caller goes on at once, and the file's thread syncs in time.

use logforce_device::sync::{AtomicU64, Mutex};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// No sync is due.
const NEVER: u64 = u64::MAX;

/// Commits that callers have left to the file's thread.
pub(super) struct Bounded {
    /// Times by which commits must be durable, whole milliseconds, and the writes to be covered.
    waiting: Mutex<BTreeMap<u128, u64>>,
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

    /// Notes a commit whose caller goes on, and which must be durable at `deadline`. Deadlines within a
    /// millisecond count as the earliest of them.
    pub(super) fn note(&self, target: u64, deadline: Duration) {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let covered = waiting.entry(deadline.as_millis()).or_default();
        *covered = target.max(*covered);
    }

    /// Returns the writes of the commit whose deadline is the earliest, if it has passed. Forgets commits for
    /// which `is_reached` returns true.
    pub(super) fn overdue(&self, now: Duration, is_reached: impl Fn(u64) -> bool) -> Option<u64> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        while waiting
            .first_key_value()
            .is_some_and(|(_, target)| is_reached(*target))
        {
            waiting.pop_first();
        }
        let (deadline, target) = waiting.first_key_value()?;
        (*deadline <= now.as_millis()).then_some(*target)
    }
}
