//! Moving the watermarks, waking the threads and tasks that wait for them, and calling the callbacks of
//! submissions.

use crate::engine::Engine;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::policy::{Policy, WaitLevel};
use crate::state::State;
use crate::state::completions::Completion;
use crate::state::pipeline::JobOutcome;
use crate::state::schedule::Parked;
use crate::sync::wake::Wake;
use logforce_device::Granted;
use logforce_device::sync::MutexGuard;
use logforce_format::{Lsn, planted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;

impl Engine {
    /// Publishes the watermarks, releases the mutex and wakes: first the next leader, so that the
    /// device does not idle, then the waiters of the jobs that are done.
    pub(crate) fn publish(&self, mut state: MutexGuard<'_, State>, outcome: JobOutcome) {
        self.publish_watermarks(&mut state, &outcome);
        let parked = Parked {
            idle: self.events.writer_is_idle.load(Acquire),
            statistics: self.events.statistics_are_written.load(Acquire),
            location: self.location.is_parked(),
        };
        let writer = state.needs_writer(&outcome, parked);
        drop(state);
        // Even if there is no job: a next leader whose batch another thread took would sleep forever.
        self.events
            .next_leader
            .notify(self.runtime(), Wake::NextLeader);
        for segment in &outcome.finished {
            segment.writer_done();
        }
        self.wake_waiters(&outcome);
        self.wake_blocked(Wake::Space);
        self.wake(Wakeups {
            writer,
            preallocator: false,
            ..Wakeups::default()
        });
    }

    /// Publishes the written LSN and the durable LSN to readers and committers, which read them without a
    /// lock.
    fn publish_watermarks(&self, state: &mut State, outcome: &JobOutcome) {
        let pipeline = &mut state.pipeline;
        let written = pipeline.written().max(pipeline.durable());
        self.written.fetch_max(written.0, Release);
        let Some(durable) = outcome.durable else {
            return;
        };
        let voids = pipeline.take_durable_voids();
        if !voids.is_empty() {
            // A void range must be visible before the durable LSN passes it. Otherwise a reader would return
            // voided records.
            let mut known = self.view.voids();
            for (from, to) in voids {
                known.add(from, to);
            }
        }
        self.poison.durable.store(durable.0, Release);
        self.view.durable.store(durable.0, Release);
    }

    fn wake_waiters(&self, outcome: &JobOutcome) {
        for job in &outcome.jobs {
            self.events
                .jobs
                .of(*job)
                .notify(self.runtime(), Wake::JobDone);
        }
        if let Some(durable) = outcome.durable {
            self.view.advanced.notify(self.runtime(), Wake::Followers);
            self.view.wakers.wake_to(durable.0, Wake::DurableTasks);
        }
        self.events
            .written_tasks
            .wake_to(self.written().0, Wake::WrittenTasks);
    }

    /// Wakes the threads and tasks that wait for buffer space, a segment or a close.
    pub(crate) fn wake_blocked(&self, why: Wake) {
        self.events.progress.notify(self.runtime(), why);
        self.events.space_tasks.wake_all(Wake::SpaceTasks);
    }
}

impl Engine {
    /// Returns the result of a submission of the records below `end`, if it is known. Takes no lock, unless
    /// it waits for the replica.
    pub(crate) fn result_of(&self, policy: Policy, end: Lsn) -> Option<Result<Granted>> {
        let reached = match policy.level() {
            None => true,
            Some(WaitLevel::Write) => self.written() >= end,
            Some(_) => self.durable() >= end,
        };
        if !reached {
            return self.check().err().map(Err);
        }
        if policy.is_replicated() && !planted!("submission-without-replica") {
            let replicated = &self.view.replicated;
            let result = replicated.result(end, &self.view.path)?;
            return Some(result.map(|()| self.guarantee_of(policy, end)));
        }
        Some(Ok(self.guarantee_of(policy, end)))
    }

    /// Returns the error of a callback without a result. Either the log has ended, or the callback became due
    /// when its replica ended, and another replica was attached before the call.
    fn undecided(&self, end: Lsn) -> Error {
        if self.durable() >= end {
            let why = "the log was closed, or has another replica since";
            return self.view.replicated.lost(&self.view.path, why);
        }
        self.poison.check().err().unwrap_or(Error::Closed)
    }

    /// Calls the callbacks that are due, in the writer thread and in the order of the records. Once the log
    /// has `ended`, calls all of them. Records that have not reached what their policy requires get an
    /// error.
    pub(crate) fn call_back(&self, ended: bool) {
        loop {
            let due = {
                let state = &mut *self.state();
                state.completions.take_due(&state.pipeline, ended)
            };
            if due.is_empty() {
                return;
            }
            for Completion { at, policy, call } in due {
                let result = match self.result_of(policy, at.end) {
                    Some(result) => result.map(|granted| at.acknowledged(granted)),
                    None => Err(self.undecided(at.end)),
                };
                // A panic in a callback does not affect the log; the panic hook has reported it.
                let _ = catch_unwind(AssertUnwindSafe(|| call(result)));
            }
            if !ended {
                // Callbacks that these callbacks have submitted run after the next writes. Otherwise the
                // writes would starve.
                return;
            }
        }
    }
}
