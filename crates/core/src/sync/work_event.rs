//! Where work that repeats is woken: a thread of its own that sleeps, or a task of a pool.

use crate::sync::event::Event;
use crate::sync::pool::Task;
use crate::sync::wake::{WaitFor, Wake};
use logforce_device::Runtime;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An event for one thread or one task.
#[derive(Default)]
pub(crate) struct WorkEvent {
    event: Event,
    task: OnceLock<Arc<Task>>,
}

impl WorkEvent {
    /// Has notifications run `task`, instead of waking a thread.
    pub(crate) fn attach(&self, task: Arc<Task>) {
        // A second one would be a second thread of the same log.
        let _ = self.task.set(task);
    }

    /// The task that notifications run.
    pub(crate) fn task(&self) -> Option<&Arc<Task>> {
        self.task.get()
    }

    /// See [`Event::observe`].
    pub(crate) fn observe(&self) -> u32 {
        self.event.observe()
    }

    /// See [`Event::wait`].
    pub(crate) fn wait(
        &self,
        runtime: &dyn Runtime,
        seen: u32,
        timeout: Option<Duration>,
        what: WaitFor,
    ) {
        self.event.wait(runtime, seen, timeout, what);
    }

    /// Wakes the thread, or has the task run. A thread may wait for the event in the middle of a task,
    /// too.
    pub(crate) fn notify(&self, runtime: &dyn Runtime, why: Wake) {
        if let Some(task) = self.task.get()
            && !why.is_forgotten()
        {
            task.schedule();
        }
        self.event.notify(runtime, why);
    }
}
