//! Events that threads wait for: observe, check the condition, wait unless it was notified since.

use crate::sync::wake::{WaitFor, Wake};
use logforce_device::Runtime;
use logforce_device::sync::{AtomicU32, total_order};
use logforce_format::planted;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// An event counter that threads wait on. It has a cache line of its own, so that notifying one
/// event does not slow down threads that poll another.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Event {
    /// The count. The caller takes it before it checks the condition.
    pub(crate) fn observe(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Sleeps until the event is notified. Returns at once if it was notified since `seen` was
    /// observed.
    pub(crate) fn wait(
        &self,
        runtime: &dyn Runtime,
        mut seen: u32,
        timeout: Option<Duration>,
        what: WaitFor,
    ) {
        if what.is_forgotten() {
            seen = self.observe();
        }
        if !planted!("sleep-uncounted") {
            self.sleepers.fetch_add(1, SeqCst);
        }
        total_order();
        runtime.wait(&self.count, seen, timeout);
        if !planted!("sleep-uncounted") {
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    /// Wakes all waiters. Costs a system call only if there are any.
    pub(crate) fn notify(&self, runtime: &dyn Runtime, why: Wake) {
        if why.is_forgotten() {
            return;
        }
        if !planted!("ring-without-change") {
            self.count.fetch_add(1, SeqCst);
        }
        total_order();
        // A thread that this load misses does not sleep yet, and will see the changed count.
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_all(&self.count);
        }
    }
}

impl Event {
    /// As [`Event::notify`], but wakes one waiter.
    pub(crate) fn notify_one(&self, runtime: &dyn Runtime, why: Wake) {
        if why.is_forgotten() {
            return;
        }
        self.count.fetch_add(1, SeqCst);
        total_order();
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_one(&self.count);
        }
    }
}

/// How many events the jobs share. Two jobs on one event cost a spurious wake-up, nothing else.
const EVENTS: usize = 64;

/// The events of jobs. Committers wait for the job that writes their records, so that one wake-up
/// reaches exactly them.
pub(crate) struct JobEvents {
    events: [Event; EVENTS],
}

impl Default for JobEvents {
    fn default() -> Self {
        JobEvents {
            events: std::array::from_fn(|_| Event::default()),
        }
    }
}

impl JobEvents {
    pub(crate) fn of(&self, job: u32) -> &Event {
        &self.events[job as usize % EVENTS]
    }

    pub(crate) fn notify_all(&self, runtime: &dyn Runtime, why: Wake) {
        for event in &self.events {
            event.notify(runtime, why);
        }
    }
}
