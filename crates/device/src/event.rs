//! Waiting for a condition, through the seam.

use crate::Runtime;
use crate::sync::{AtomicU32, total_order};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// An event counter: observe, check the condition, wait unless it was notified since.
#[derive(Default)]
pub struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Event {
    /// The count. The caller takes it before it checks the condition.
    pub fn observe(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Sleeps until the event is notified, or for `timeout`. Returns at once if it was notified since
    /// `seen` was observed; may return early for no reason.
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
        // A thread that this load misses does not sleep yet, and will see the changed count.
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_all(&self.count);
        }
    }

    /// As [`Event::notify`], and wakes one waiter only: for what any one of them can do.
    pub fn notify_one(&self, runtime: &dyn Runtime) {
        self.count.fetch_add(1, SeqCst);
        total_order();
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_one(&self.count);
        }
    }
}
