//! Events that threads wait for. A thread observes the event, checks its condition, and then waits, unless
//! the event was notified since it was observed.

use crate::sync::reason::Reason;
use logforce_device::sync::{AtomicU32, total_order};
use logforce_device::{Runtime, planted};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// An event counter that threads wait on. It occupies a separate cache line, so that notifying one event does
/// not slow down threads that poll another one.
#[derive(Default)]
#[repr(align(64))]
pub struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Event {
    /// Returns the count. The caller must take it before it checks its condition.
    #[inline]
    pub fn observe(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Sleeps until the event is notified. Returns at once if it was notified since `seen` was
    /// observed.
    #[inline]
    pub fn wait(
        &self,
        runtime: &dyn Runtime,
        mut seen: u32,
        timeout: Option<Duration>,
        what: impl Reason,
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

    /// Wakes all waiters. Makes a system call only if there are any.
    #[inline]
    pub fn notify(&self, runtime: &dyn Runtime, why: impl Reason) {
        if why.is_forgotten() {
            return;
        }
        if !planted!("ring-without-change") {
            self.count.fetch_add(1, SeqCst);
        }
        total_order();
        // A thread that this load misses is not asleep yet, and will see the changed count.
        if self.sleepers.load(SeqCst) > 0 {
            runtime.wake_all(&self.count);
        }
    }
}

impl Event {
    /// Notifies as [`Event::notify`] does, but wakes only one waiter.
    #[inline]
    pub fn notify_one(&self, runtime: &dyn Runtime, why: impl Reason) {
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

/// Number of events that the jobs share. Two jobs with the same event only cause a spurious wake-up.
const EVENTS: usize = 64;

/// The events of jobs. Committers wait for the job that writes their records, so that a wake-up reaches only
/// them.
pub struct JobEvents {
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
    /// Returns the event of a job.
    #[inline]
    pub fn of(&self, job: u32) -> &Event {
        &self.events[job as usize % EVENTS]
    }

    /// Wakes the waiters of all jobs.
    pub fn notify_all(&self, runtime: &dyn Runtime, why: impl Reason) {
        for event in &self.events {
            event.notify(runtime, why);
        }
    }
}
