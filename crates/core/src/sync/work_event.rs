//! Event that wakes repeated work: a sleeping thread of the log, or a task of a pool.

use crate::sync::pool::Task;
use crate::sync::wake::{WaitFor, Wake};
use logforce_commit::sync::event::Event;
use logforce_commit::sync::reason::Reason;
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
    /// Makes notifications schedule `task`.
    pub(crate) fn attach(&self, task: Arc<Task>) {
        // A second task would act as a second thread of the same log, so it is ignored.
        let _ = self.task.set(task);
    }

    /// Returns the task that notifications schedule.
    pub(crate) fn task(&self) -> Option<&Arc<Task>> {
        self.task.get()
    }

    /// Returns the count; see [`Event::observe`].
    pub(crate) fn observe(&self) -> u32 {
        self.event.observe()
    }

    /// Waits for the event; see [`Event::wait`].
    pub(crate) fn wait(
        &self,
        runtime: &dyn Runtime,
        seen: u32,
        timeout: Option<Duration>,
        what: WaitFor,
    ) {
        self.event.wait(runtime, seen, timeout, what);
    }

    /// Schedules the task, if there is one, and wakes threads. A thread may wait for the event within a step
    /// of a task as well.
    pub(crate) fn notify(&self, runtime: &dyn Runtime, why: Wake) {
        if let Some(task) = self.task.get()
            && !why.is_forgotten()
        {
            task.schedule();
        }
        self.event.notify(runtime, why);
    }
}
