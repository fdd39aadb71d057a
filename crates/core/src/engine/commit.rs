//! Group commit: a committing thread leads the next job, or waits for the job that covers its
//! records. In a *job*, one leader writes all staged batches of the log buffer, and perhaps syncs them
//! (RocksDB: a write group). *Sealing* a batch fills in its checksum and its *stamp*, the durable LSN of
//! that moment.
//!
//! A committing thread locks the state and asks `schedule` for a job. If there is one, the thread
//! becomes that job's leader: it takes all staged batches, seals them, unlocks and writes.
//! Otherwise it waits for the event of the job that covers its LSN. One waiter is the next leader,
//! and is woken first when a job ends, so that the device does not idle.

use crate::engine::Engine;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::metrics::Load;
use crate::policy::WaitLevel;
use crate::state::State;
use crate::state::batch::BatchBuilder;
use crate::state::pipeline::WriteKind;
use crate::state::schedule::Job;
use crate::storage::durability::{Why, barrier};
use crate::storage::segment::Segment;
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::{WaitFor, Wake};
use crate::trace;
use logforce_commit::sync::event::Event;
use logforce_device::sync::MutexGuard;
use logforce_device::{AlignedBuf, File, Guarantee, Ticket, Write};
use logforce_format::{Lsn, planted};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A write in flight, and the time at which it began.
type PendingWrite = (Arc<Segment>, Arc<dyn File>, Ticket, Duration);

/// Writes in flight. A thread that panics waits for them too: a write that reaches the device after
/// the log's lock file is released could overwrite the next opening's batches.
struct PendingWrites(VecDeque<PendingWrite>);

impl Drop for PendingWrites {
    fn drop(&mut self) {
        for (_, file, ticket, _) in self.0.drain(..) {
            // The device has panicked before; another panic must not keep the other writes from
            // being joined.
            let _ = catch_unwind(AssertUnwindSafe(|| file.complete(ticket)));
        }
    }
}

/// A job in progress. If its leader panics, the log is poisoned, because the effect of its writes is
/// unknown.
struct RunningJob<'a> {
    engine: &'a Engine,
    ended: bool,
}

impl RunningJob<'_> {
    /// Ends the job. All its I/O must be joined.
    fn end(&mut self, state: &mut State) {
        self.ended = true;
        state.pipeline.jobs.running -= 1;
    }

    /// Ends the job after the log has failed. A close waits for this before it releases the lock file.
    fn end_failed(&mut self, why: Wake) {
        self.end(&mut self.engine.state());
        let engine = self.engine;
        engine.events.progress.notify(engine.runtime(), why);
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.engine.unwound("write to");
            self.end_failed(Wake::JobUnwound);
        }
    }
}

impl Engine {
    /// Returns once everything below `end` has reached `level`. The calling thread leads a job
    /// itself if no job in progress covers `end`.
    pub(crate) fn wait_until(&self, end: Lsn, level: WaitLevel) -> Result<()> {
        let now = self.runtime().now();
        let state = self.state();
        self.wait_until_locked(state, Wakeups::default(), end, level, now)
    }

    /// Waits like [`Engine::wait_until`], and records the duration in the statistics.
    pub(crate) fn wait_until_timed(&self, end: Lsn, level: WaitLevel) -> Result<()> {
        refuse_in_waker()?;
        let began = self.runtime().now();
        self.wait_until(end, level)?;
        self.metrics
            .waited(self.runtime().now().saturating_sub(began));
        Ok(())
    }

    /// Waits like [`Engine::wait_until`], with the state locked already. `now`: the time shortly before
    /// that.
    pub(crate) fn wait_until_locked<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        mut wakeups: Wakeups,
        end: Lsn,
        level: WaitLevel,
        mut now: Duration,
    ) -> Result<()> {
        // A poisoned log has dropped the staged records, so its tail means nothing.
        if !self.poison.is_set() && end > state.tail() {
            let end_of_log = state.tail();
            drop(state);
            self.wake(wakeups);
            return Err(Error::BeyondEnd {
                lsn: end,
                end: end_of_log,
            });
        }
        let mut my_turn = None;
        loop {
            if level == WaitLevel::Force
                && let Some(outcome) = state.pipeline.catch_up(end)
            {
                self.publish(state, outcome);
                self.wake(wakeups);
                return Ok(());
            }
            if state.pipeline.has_reached(level, end) {
                drop(state);
                self.wake(wakeups);
                return Ok(());
            }
            let checked = planted!("recheck-poison", Ok(()), else self.poison.check());
            if let Err(e) = checked {
                drop(state);
                self.wake(wakeups);
                return Err(e);
            }
            state.pipeline.request(level, end);
            let gathers_for = state.pipeline.write_concurrency.gathers_for(now);
            if let Some(job) = state.take_or_gather() {
                drop(state);
                self.wake(std::mem::take(&mut wakeups));
                self.lead(job)?;
            } else {
                let event = self.event_to_wait_for(&mut state, end, level, &mut my_turn);
                let seen = event.observe();
                // The next leader must wake by itself. Otherwise, if no other commit comes, no thread would
                // begin the write, and all threads that wait for it would hang.
                let leads_next = std::ptr::eq(event, &self.events.next_leader);
                let timeout = gathers_for.filter(|_| leads_next);
                drop(state);
                self.wake(std::mem::take(&mut wakeups));
                event.wait(self.runtime(), seen, timeout, WaitFor::Commit);
            }
            if self.is_reached(level, end) {
                return Ok(());
            }
            now = self.runtime().now();
            state = self.state();
        }
    }

    /// Returns the event of the job that covers `end`, or the next leader's event. `my_turn` is the number
    /// of the job for which the caller is the next leader.
    fn event_to_wait_for(
        &self,
        state: &mut State,
        end: Lsn,
        level: WaitLevel,
        my_turn: &mut Option<u32>,
    ) -> &Event {
        if let Some(job) = state.pipeline.covering_job(level, end) {
            return self.events.jobs.of(job);
        }
        let jobs = &mut state.pipeline.jobs;
        let next = jobs.next;
        let is_mine = planted!("next-leader-looks-once", false, else *my_turn == Some(next));
        // One committer must take the next job when a job ends.
        if !jobs.has_next_leader || is_mine {
            jobs.has_next_leader = true;
            *my_turn = Some(next);
            return &self.events.next_leader;
        }
        self.events.jobs.of(next)
    }

    /// Returns true if `end` has reached `level`. May return false although it has. Takes no lock.
    fn is_reached(&self, level: WaitLevel, end: Lsn) -> bool {
        match level {
            WaitLevel::Force => self.durable() >= end,
            WaitLevel::Write => self.written() >= end,
            WaitLevel::Barrier => false,
        }
    }

    /// Carries out a job as its leader. A failure poisons the log.
    pub(crate) fn lead(&self, job: Job) -> Result<()> {
        let mut running = RunningJob {
            engine: self,
            ended: false,
        };
        let result = self.carry_out(job, &mut running);
        result.map_err(|e| {
            let error = self.fail(e);
            running.end_failed(Wake::JobFailed);
            error
        })
    }

    fn carry_out(&self, job: Job, running: &mut RunningJob<'_>) -> Result<()> {
        let Job {
            kind,
            batches,
            numbers,
            oldest_submission,
        } = job;
        let load = Load::of(&batches, &self.metrics);
        // A batch with only a stamp commits no record, and does not count as a force.
        let forces = kind.forces() && !load.stamp;
        let began = self.runtime().now();
        let mut at = began;
        if let Some(job) = numbers.write {
            let bufs = self.write(kind, batches, &mut at)?;
            let took = at.saturating_sub(began);
            let mut state = self.state();
            if matches!(kind, WriteKind::Each { .. }) {
                state.deadlines.note_force(took);
            }
            state.buffer.recycle(bufs);
            self.metrics
                .job_done(&load, kind == WriteKind::Each { through: true });
            if forces && numbers.sync.is_none() {
                self.metrics.counted.forces.add_locked(1);
            }
            let outcome = state.pipeline.write_done(job, at, took);
            if numbers.sync.is_none() {
                running.end(&mut state);
            }
            self.publish(state, outcome);
        }
        if let WriteKind::Barrier(kind) = kind {
            let segments = self.state().pipeline.begin_sync();
            let count = segments.len();
            for segment in &segments {
                let synced = barrier(&*segment.file()?, kind, Why::Commit);
                if planted!("failed-barrier-forgotten") {
                    continue;
                }
                synced.map_err(Error::io("sync", segment.path()))?;
            }
            let written = std::mem::replace(&mut at, self.runtime().now());
            let took = at.saturating_sub(began);
            let mut state = self.state();
            state.deadlines.note_force(took);
            self.metrics.counted.barriers.add_locked(count as u64);
            if forces {
                self.metrics.counted.forces.add_locked(1);
            }
            let outcome = state.pipeline.end_sync(segments, numbers.quiet);
            running.end(&mut state);
            self.publish(state, outcome);
            trace::barrier(count, at.saturating_sub(written));
        }
        let took = at.saturating_sub(began);
        if forces {
            let since = oldest_submission.map(|accepted| at.saturating_sub(accepted));
            let one_unit = load.bytes == u64::from(self.config.unit);
            self.metrics.forced(took, one_unit, since);
        }
        trace::job(kind.label(), load.batches, load.bytes, took);
        Ok(())
    }

    /// Writes the batches and returns their buffers. `at` is the current time; on return, the time at which
    /// the last write ended.
    fn write(
        &self,
        kind: WriteKind,
        batches: Vec<BatchBuilder>,
        at: &mut Duration,
    ) -> Result<Vec<AlignedBuf>> {
        let through = kind == WriteKind::Each { through: true };
        let mut result = Ok(());
        let mut bufs = Vec::with_capacity(batches.len());
        let mut pending = PendingWrites(VecDeque::with_capacity(batches.len()));
        for batch in batches {
            let segment = batch.segment.clone();
            // Open already, unless the segment was prepared far ahead of its use.
            let file = match segment.open_writer(self.config.force.plan.direct) {
                Ok(file) => file,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            };
            segment.note_batch(batch.lsn);
            let range = 0..batch.extent();
            let ticket = file.submit(Write {
                offset: segment.offset(batch.lsn),
                buf: batch.buf,
                range,
                through,
            });
            let begun = *at;
            *at = self.runtime().now();
            if ticket.done.is_some() {
                self.metrics.wrote(at.saturating_sub(begun));
            }
            pending.0.push_back((segment, file, ticket, begun));
        }
        // Joins all writes, also after a failure: a write that reaches the device after the lock file
        // is released could overwrite the next opening's batches.
        while let Some((segment, file, ticket, begun)) = pending.0.pop_front() {
            let was_done = ticket.done.is_some();
            let done = file.complete(ticket);
            if !was_done {
                *at = self.runtime().now();
                self.metrics.wrote(at.saturating_sub(begun));
            }
            bufs.push(done.buf);
            let joins_rest = planted!("write-not-joined", result.is_ok(), else true);
            if !joins_rest {
                std::mem::forget(pending);
                break;
            }
            let written = planted!("failed-write-forgotten", Ok(()), else done.result);
            if let Err(e) = written
                && result.is_ok()
            {
                result = Err(Error::io("write", segment.path())(e));
            }
        }
        if planted!("failed-write-lands") {
            return Ok(bufs);
        }
        result.map(|()| bufs)
    }

    /// Writes a stamp: a batch without records that proves how far the log is durable. Writes none, and
    /// returns false, while a write is in flight, if a stamp covers the last force already, or while another
    /// thread closes the log. `closes`: the caller is the closing thread. A stamp above the end that a close
    /// has read would keep the close from marking the log as clean.
    pub(crate) fn write_stamp(&self, closes: bool) -> Result<bool> {
        if self.config.force.guarantee < Guarantee::PowerLoss {
            return Ok(false);
        }
        // A stamp in a file that was moved away would claim durability for records that no opening
        // finds.
        self.check_location()?;
        let (job, forces) = {
            let mut state = self.state();
            // The caller saw without the mutex that a stamp is due; another thread may have written
            // it since.
            let is_wanted = state.pipeline.lacks_stamp() && state.lifecycle.closing == closes;
            if self.poison.is_set() || !is_wanted {
                return Ok(false);
            }
            let forces = state.pipeline.stamps.forces;
            let Some(job) = state.take_stamp() else {
                return Ok(false);
            };
            state.pipeline.stamps.is_due = false;
            (job, forces)
        };
        let quiet = job.numbers.quiet;
        self.lead(job)?;
        let stamps = &mut self.state().pipeline.stamps;
        // The stamp's own force needs no further stamp if the stamp was alone in its job. A quiet job also
        // wrote records for which no force was requested. They are not acknowledged yet, and get a stamp
        // when they are.
        let own = !quiet && stamps.forces == forces + 1;
        stamps.stamped = forces + u64::from(own);
        Ok(true)
    }
}
