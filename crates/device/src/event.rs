//! Waiting for a condition through the runtime.

use crate::Runtime;
use crate::sync::{AtomicU32, total_order};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Event counter. The caller observes it, checks its condition, and waits unless the event was notified
/// since.
#[derive(Default)]
pub struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Event {
    /// Returns the count. The caller reads it before it checks the condition.
    pub fn observe(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Sleeps until the event is notified, or until `timeout` has passed. Returns at once if the event was
    /// notified since `seen` was observed. May return early for no reason.
    pub fn wait(&self, runtime: &dyn Runtime, seen: u32, timeout: Option<Duration>) {
        self.sleepers.fetch_add(1, SeqCst);
        total_order();
        runtime.wait(&self.count, seen, timeout);
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Wakes all waiters. Costs a system call only if there are any.
    pub fn notify(&self, runtime: &dyn Runtime) {
        self.count.fetch_add(1, SeqCst);
        total_order();
        // A thread that this load misses is not asleep yet, and will see the changed count.
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_all(&self.count);
        }
    }

    /// Works as [`Event::notify`], but wakes a single waiter: for work that any one of them can do.
    pub fn notify_one(&self, runtime: &dyn Runtime) {
        self.count.fetch_add(1, SeqCst);
        total_order();
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_one(&self.count);
        }
    }
}
