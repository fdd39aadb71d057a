//! From staged batches to durable ones.
//!
//! Whoever needs something done looks for a job ([`Stage::take`]), carries it out in its own
//! thread, and lands it. Who finds none sleeps until the job that carries its records is done; one
//! sleeper is the *claimant* of the next job, and is woken first when one ends.

mod line;
mod next;
mod signal;

pub(crate) use line::{Durability, How, Identity, Landed, Line};
pub(crate) use next::{Flying, Job};
pub(crate) use signal::{Rounds, Signal};

use crate::log::Shared;
use crate::metrics::Load;
use crate::segments::Segment;
use crate::stage::Stage;
use crate::{Error, Result, trace};
use line::Kind;
use logforce_device::sync::MutexGuard;
use logforce_device::{AlignedBuf, File, Guarantee, Ticket, Write};
use logforce_format::{Lsn, planted};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// What is to be rung once the mutex is released.
#[derive(Debug, Default, Clone, Copy)]
#[must_use]
pub(crate) struct Rings {
    pub(crate) work: bool,
    pub(crate) prepare: bool,
}

/// A write in the air, and when it began.
type Aloft = (Arc<Segment>, Arc<dyn File>, Ticket, Duration);

/// Writes in the air. They are waited for also when the thread unwinds: none may land after the lock
/// is given up.
struct InAir(VecDeque<Aloft>);

impl Drop for InAir {
    fn drop(&mut self) {
        for (_, file, ticket, _) in self.0.drain(..) {
            // The device has panicked before; once more changes nothing for the others.
            let _ = catch_unwind(AssertUnwindSafe(|| file.complete(ticket)));
        }
    }
}

/// A job under way. If its holder unwinds, the log is poisoned: what its writes did is not known.
struct Running<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl Running<'_> {
    /// All its I/O is joined.
    fn end(&mut self, stage: &mut Stage) {
        self.ended = true;
        stage.line.running -= 1;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.unwound("write to");
            // Only now: whoever closes the log waits for this, and then gives up the lock.
            self.shared.stage().line.running -= 1;
            if !planted!("wake-after-unwound-job") {
                self.shared.progress.ring(&*self.shared.runtime);
            }
        }
    }
}

impl Shared {
    pub(crate) fn ring(&self, rings: Rings) {
        if rings.work && !planted!("wake-work") {
            self.work.ring(&*self.runtime);
        }
        if rings.prepare && !planted!("wake-prepare") {
            self.prepare.ring(&*self.runtime);
        }
    }

    /// Returns once everything below `end` has been brought that far; the caller does the work
    /// itself where nobody else is at it.
    pub(crate) fn bring(&self, end: Lsn, how: How) -> Result<()> {
        let stage = self.stage();
        self.bring_from(stage, Rings::default(), end, how)
    }

    /// As [`Shared::bring`], with the mutex held already.
    pub(crate) fn bring_from<'a>(
        &'a self,
        mut stage: MutexGuard<'a, Stage>,
        mut rings: Rings,
        end: Lsn,
        how: How,
    ) -> Result<()> {
        // What was staged is gone once the log is poisoned: the tail says nothing then.
        if !self.poison.is_set() && end > stage.tail() {
            let end_of_log = stage.tail();
            drop(stage);
            self.ring(rings);
            return Err(Error::BeyondEnd {
                lsn: end,
                end: end_of_log,
            });
        }
        let mut mine = None;
        loop {
            if let Some(landed) = (how == How::Force)
                .then(|| stage.line.catch_up(end))
                .flatten()
            {
                self.publish(stage, landed);
                self.ring(rings);
                return Ok(());
            }
            if stage.line.has_reached(how, end) {
                drop(stage);
                self.ring(rings);
                return Ok(());
            }
            if let Err(e) = self.poison.check()
                && !planted!("recheck-poison")
            {
                drop(stage);
                self.ring(rings);
                return Err(e);
            }
            stage.line.want(how, end);
            if let Some(job) = stage.take() {
                drop(stage);
                self.ring(std::mem::take(&mut rings));
                self.run(job)?;
                if self.is_at(end, how) {
                    return Ok(());
                }
                stage = self.stage();
                continue;
            }
            let next = stage.line.generation;
            let signal = match stage.line.carrier(how, end) {
                Some(generation) => self.rounds.of(generation),
                // Somebody must look for the next job when one ends.
                None if !stage.line.claimed
                    || (mine == Some(next) && !planted!("claimant-looks-once")) =>
                {
                    stage.line.claimed = true;
                    mine = Some(next);
                    &self.claim
                }
                None => self.rounds.of(next),
            };
            let mut seen = signal.observe();
            drop(stage);
            if planted!("late-observe-commit") {
                seen = signal.observe();
            }
            self.ring(std::mem::take(&mut rings));
            signal.sleep(&*self.runtime, seen, None);
            if self.is_at(end, how) {
                return Ok(());
            }
            stage = self.stage();
        }
    }

    /// Without the mutex: whether `end` is certainly there.
    fn is_at(&self, end: Lsn, how: How) -> bool {
        match how {
            How::Force => self.durable() >= end,
            How::Write => self.written() >= end,
            How::Barrier => false,
        }
    }

    /// Carries out a job. On failure the log is poisoned.
    pub(crate) fn run(&self, job: Job) -> Result<()> {
        let mut running = Running {
            shared: self,
            ended: false,
        };
        let result = self.carry_out(job, &mut running);
        if let Err(e) = result {
            running.ended = true;
            let error = self.fail(e);
            // Only now: whoever closes the log waits for this, and then gives up the lock.
            self.stage().line.running -= 1;
            if !planted!("wake-after-failed-job") {
                self.progress.ring(&*self.runtime);
            }
            return Err(error);
        }
        Ok(())
    }

    fn carry_out(&self, job: Job, running: &mut Running<'_>) -> Result<()> {
        let Job {
            kind,
            batches,
            launch,
            oldest_submission,
        } = job;
        let load = Load::of(&batches, &self.metrics);
        // A stamp is nobody's commit.
        let forces = kind.forces() && !load.stamp;
        let began = self.runtime.now();
        let mut at = began;
        if let Some(generation) = launch.write {
            let bufs = self.write(kind, batches, &mut at)?;
            let took = at.saturating_sub(began);
            let mut stage = self.stage();
            if matches!(kind, Kind::Each { .. }) {
                stage.note_force(took);
            }
            stage.recycle(bufs);
            self.metrics
                .landed(&load, kind == Kind::Each { through: true });
            if forces && launch.fence.is_none() {
                self.metrics.counting.forces.add_alone(1);
            }
            let landed = stage.line.land(generation);
            if launch.fence.is_none() {
                running.end(&mut stage);
            }
            self.publish(stage, landed);
        }
        if let Kind::Barrier(kind) = kind {
            let segments = self.stage().line.begin_fence();
            let count = segments.len();
            for segment in &segments {
                if planted!("barrier-left-out") {
                    continue;
                }
                let barrier = segment.file()?.barrier(kind);
                if planted!("failed-barrier-forgotten") {
                    continue;
                }
                barrier.map_err(Error::io("sync", segment.path()))?;
            }
            let written = std::mem::replace(&mut at, self.runtime.now());
            let took = at.saturating_sub(began);
            let mut stage = self.stage();
            stage.note_force(took);
            self.metrics.counting.barriers.add_alone(count as u64);
            if forces {
                self.metrics.counting.forces.add_alone(1);
            }
            let landed = stage.line.end_fence(segments, launch.quiet);
            running.end(&mut stage);
            self.publish(stage, landed);
            trace::barrier(count, at.saturating_sub(written));
        }
        let took = at.saturating_sub(began);
        if forces {
            let since = oldest_submission.map(|accepted| at.saturating_sub(accepted));
            let one_unit = load.bytes == u64::from(self.unit);
            self.metrics.forced(took, one_unit, since);
        }
        trace::job(kind.label(), load.batches, load.bytes, took);
        Ok(())
    }

    /// Writes the batches and returns their memory. `at` is the time when it begins, and then the
    /// time when it ends.
    fn write(
        &self,
        kind: Kind,
        batches: Vec<crate::stage::Building>,
        at: &mut Duration,
    ) -> Result<Vec<AlignedBuf>> {
        let through = kind == Kind::Each { through: true };
        let mut result = Ok(());
        let mut bufs = Vec::with_capacity(batches.len());
        let mut flying = InAir(VecDeque::with_capacity(batches.len()));
        for batch in batches {
            let segment = batch.segment.clone();
            // Open but for segments far ahead of what was in use when they were prepared.
            let file = match segment.open_writer(self.plan.direct) {
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
            *at = self.runtime.now();
            if ticket.done.is_some() {
                self.metrics.wrote(at.saturating_sub(begun));
            }
            flying.0.push_back((segment, file, ticket, begun));
        }
        // All are waited for, also after a failure: no write of ours may land after the lock is
        // given up.
        while let Some((segment, file, ticket, begun)) = flying.0.pop_front() {
            let was_done = ticket.done.is_some();
            let done = file.complete(ticket);
            if !was_done {
                *at = self.runtime.now();
                self.metrics.wrote(at.saturating_sub(begun));
            }
            bufs.push(done.buf);
            if result.is_err() && planted!("write-not-joined") {
                std::mem::forget(flying);
                break;
            }
            if let Err(e) = done.result
                && result.is_ok()
                && !planted!("failed-write-forgotten")
            {
                result = Err(Error::io("write", segment.path())(e));
            }
        }
        if planted!("failed-write-lands") {
            return Ok(bufs);
        }
        result.map(|()| bufs)
    }

    /// Lets readers and committers that hold no mutex see what landed.
    fn show(&self, stage: &mut Stage, landed: &Landed) {
        self.written
            .fetch_max(stage.line.written().0.max(stage.line.durable().0), Release);
        if let Some(durable) = landed.durable {
            let voids = stage.line.take_durable_voids();
            if !voids.is_empty() {
                // Readers learn of a void range when it is durable, and before the durable LSN
                // passes it.
                let mut known = self.voids();
                for (from, to) in voids {
                    known.add(from, to);
                }
            }
            self.poison.durable.store(durable.0, Release);
            self.view.durable.store(durable.0, Release);
        }
    }

    /// Shows what landed, releases the mutex, and wakes who may go on: first whoever begins the
    /// next job, so that the device is not idle, then those who got what they waited for.
    pub(crate) fn publish(&self, mut stage: MutexGuard<'_, Stage>, landed: Landed) {
        self.show(&mut stage, &landed);
        let job = stage.has_job();
        let claimed = stage.line.claimed;
        let idle = !stage.has_staged() && stage.line.flights() == 0;
        let work = (job && !claimed && !planted!("wake-work-for-job"))
            || stage.has_overflow()
            || (idle && stage.line.stamp_now)
            || (stage.line.lacks_stamp() && self.service_parked.load(Acquire))
            || (stage.has_callback() && !planted!("wake-callback"))
            || (landed.durable.is_some() && self.live_parked.load(Acquire))
            || (self.watch.parked.load(Acquire) && !planted!("wake-watch"));
        drop(stage);
        // Also where there is no job for it: a claimant whose batch somebody else took sleeps on.
        if !planted!("wake-claimant") {
            self.claim.ring(&*self.runtime);
        }
        for segment in &landed.finished {
            segment.writer_done();
        }
        self.tell(&landed);
        self.made_progress();
        self.ring(Rings {
            work,
            prepare: false,
        });
    }

    fn tell(&self, landed: &Landed) {
        for generation in &landed.generations {
            if !planted!("wake-round") {
                self.rounds.of(*generation).ring(&*self.runtime);
            }
        }
        if let Some(durable) = landed.durable {
            if !planted!("wake-follower") {
                self.view.advanced.ring(&*self.runtime);
            }
            if !planted!("wake-tasks") {
                self.view.wakers.wake_to(durable);
            }
        }
        if !planted!("wake-written-tasks") {
            self.written_wakers.wake_to(self.written());
        }
    }

    /// A write is done, room or prepared space appeared, or the log ends.
    pub(crate) fn made_progress(&self) {
        if !planted!("wake-progress") {
            self.progress.ring(&*self.runtime);
        }
        if !planted!("wake-room-tasks") {
            self.room_wakers.wake_all();
        }
    }

    /// Writes down how far the log is durable, as a batch without records. Returns whether it did:
    /// not where somebody is writing, and not where there is nothing new to say. Nor where somebody
    /// else is closing the log (`closes` says that the caller is): a stamp above the end that the
    /// close has found would keep it from saying that the log was closed in order.
    pub(crate) fn write_stamp(&self, closes: bool) -> Result<bool> {
        if self.guarantee < Guarantee::PowerLoss {
            return Ok(false);
        }
        // It would say of what nobody finds any more that it is durable.
        self.look_for_itself()?;
        let (job, forces) = {
            let mut stage = self.stage();
            // The caller may have been kept long since it saw that one is missing.
            let is_wanted = stage.line.lacks_stamp() && stage.closing == closes;
            if self.poison.is_set() || !is_wanted {
                return Ok(false);
            }
            let forces = stage.line.forces;
            let Some(job) = stage.take_stamp() else {
                return Ok(false);
            };
            stage.line.stamp_now = false;
            (job, forces)
        };
        let quiet = job.launch.quiet;
        self.run(job)?;
        let line = &mut self.stage().line;
        // Its own landing, if nothing went along, needs no stamp. What goes along quietly is not
        // acknowledged, and stamped when it is.
        let own = !quiet && line.forces == forces + 1;
        line.stamped_forces = forces + u64::from(own);
        Ok(true)
    }

    /// Fails the log because a thread unwound in the middle of it: what the device did of what it
    /// was asked for is not known.
    pub(crate) fn unwound(&self, doing: &'static str) -> Error {
        self.fail(Error::Io {
            doing,
            path: self.path.clone(),
            source: Arc::new(std::io::Error::other("the thread that was at it panicked")),
        })
    }

    /// Runs what must not be left half done: if it unwinds, the log has failed.
    pub(crate) fn whole<T>(&self, doing: &'static str, body: impl FnOnce() -> T) -> T {
        struct Half<'a>(&'a Shared, &'static str);
        impl Drop for Half<'_> {
            fn drop(&mut self) {
                self.0.unwound(self.1);
            }
        }
        let half = Half(self, doing);
        let done = body();
        std::mem::forget(half);
        done
    }

    /// Records the failure, drops what waits, wakes everybody.
    pub(crate) fn fail(&self, cause: Error) -> Error {
        let error = self.poison.set(cause);
        if !self.metrics.failed.swap(true, Relaxed) {
            trace::poisoned(&error);
        }
        self.stage().discard();
        if !planted!("fail-wake-claimant") {
            self.claim.ring(&*self.runtime);
        }
        if !planted!("fail-wake-rounds") {
            self.rounds.ring_all(&*self.runtime);
        }
        if !planted!("fail-wake-progress") {
            self.made_progress();
        }
        if !planted!("fail-wake-work") {
            self.work.ring(&*self.runtime);
        }
        self.prepare.ring(&*self.runtime);
        if !planted!("fail-wake-written-tasks") {
            self.written_wakers.wake_all();
        }
        if !planted!("fail-ends-view") {
            self.view.end(Some(error.clone()));
        }
        error
    }
}
