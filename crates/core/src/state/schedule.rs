//! What is written next, and by what kind of write. Decided under the log's mutex, from what is
//! staged, what is in flight and what somebody waits for.

use crate::policy::SyncLevel;
use crate::state::State;
use crate::state::batch::BatchBuilder;
use crate::state::pipeline::{Durability, JobNumbers, JobOutcome, WriteKind};
use crate::sync::wake::Wake;
use logforce_device::Barrier;
use logforce_format::{BatchKind, planted};
use std::time::Duration;

/// More batches than this are cheaper written plainly with one barrier after them than written
/// through one by one.
const THROUGH_AT_MOST: usize = 2;

/// A job: nobody else writes these batches, and the thread that took it must carry it out. It is
/// the job's leader.
#[must_use]
pub(crate) struct Job {
    pub(crate) kind: WriteKind,
    pub(crate) batches: Vec<BatchBuilder>,
    pub(crate) numbers: JobNumbers,
    /// When the oldest submission was accepted that becomes durable with it, by the log's clock.
    pub(crate) oldest_submission: Option<Duration>,
}

impl State {
    /// The job that somebody waits for, if it can be begun now.
    fn wanted(&self) -> Option<WriteKind> {
        let pipeline = &self.pipeline;
        let staged = self.buffer.has_staged();
        let barrier = staged && pipeline.requests_staged(SyncLevel::Barrier);
        let force = staged && pipeline.requests_staged(SyncLevel::Force);
        let write =
            staged && pipeline.requests_staged(SyncLevel::Write) && !pipeline.writes_plainly();
        if barrier || force {
            let kind = self.forcing(barrier);
            // Who only wants it written does not wait for a barrier that others request.
            return kind.or((write && pipeline.has_pending_sync())
                .then_some(WriteKind::Plain { forces: false }));
        }
        if write {
            return Some(WriteKind::Plain { forces: false });
        }
        let alone = pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync();
        (alone && pipeline.requests_sync()).then(|| WriteKind::Barrier(self.barrier()))
    }

    fn forcing(&self, barrier: bool) -> Option<WriteKind> {
        let pipeline = &self.pipeline;
        match self.durability {
            Durability::Each { through } if self.may_write_through(through || !barrier) => self
                .may_be_in_flight()
                .then_some(WriteKind::Each { through }),
            Durability::Weak if !barrier => self
                .may_be_in_flight()
                .then_some(WriteKind::Plain { forces: true }),
            _ => (pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync())
                .then(|| WriteKind::Barrier(self.barrier())),
        }
    }

    /// A write that is durable by itself makes a force only where nothing before it is unforced.
    fn may_write_through(&self, suffices: bool) -> bool {
        let pipeline = &self.pipeline;
        suffices
            && (!pipeline.has_unforced() || planted!("unforced-neighbour"))
            && !pipeline.has_pending_sync()
            && !pipeline.writes_plainly()
            && self.buffer.staged_batches() <= THROUGH_AT_MOST
    }

    fn may_be_in_flight(&self) -> bool {
        match self.pipeline.in_flight_writes() {
            0 => true,
            n => n < self.limits.most && self.buffer.staged() >= self.limits.from,
        }
    }

    fn barrier(&self) -> Barrier {
        match self.durability {
            Durability::Barrier(kind) => kind,
            _ => Barrier::Data,
        }
    }

    /// Whether a full batch that nobody forces should be written, to make room.
    fn overflows(&self) -> bool {
        self.buffer.has_full()
            && !self.pipeline.writes_plainly()
            && !self.pipeline.requests_staged(SyncLevel::Force)
    }

    /// Whether [`State::take`] would find a job.
    pub(crate) fn has_job(&self) -> bool {
        self.wanted().is_some()
    }

    /// Whether [`State::take_overflow`] would find a job.
    pub(crate) fn has_overflow(&self) -> bool {
        self.overflows()
    }

    /// Takes the job that somebody waits for.
    pub(crate) fn take(&mut self) -> Option<Job> {
        let kind = self.wanted()?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, false))
    }

    /// Takes the oldest full batch, written without a force.
    pub(crate) fn take_overflow(&mut self) -> Option<Job> {
        if !self.overflows() {
            return None;
        }
        let batches = self.buffer.take_full().into_iter().collect();
        Some(self.launch(WriteKind::Plain { forces: false }, batches, false))
    }

    /// Takes a stamp, and what is staged before it: if nothing is in flight and there is space for
    /// one. What goes along becomes durable, and is not acknowledged: nobody asked.
    pub(crate) fn take_stamp(&mut self) -> Option<Job> {
        if self.pipeline.in_flight_writes() > 0
            || self.pipeline.has_pending_sync()
            || !self.has_space_for_mark()
        {
            return None;
        }
        let quiet = self.buffer.has_staged() || self.pipeline.written() > self.pipeline.durable();
        self.place_mark(BatchKind::Stamp, None);
        let kind = self.forcing(false)?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, quiet))
    }

    fn launch(&mut self, kind: WriteKind, mut batches: Vec<BatchBuilder>, quiet: bool) -> Job {
        let numbers = self.pipeline.launch(kind, quiet, &mut batches);
        let oldest_submission = match kind {
            // Another job will force it.
            WriteKind::Plain { forces: false } => None,
            _ => self.deadlines.oldest_submission.take(),
        };
        Job {
            kind,
            batches,
            numbers,
            oldest_submission,
        }
    }

    /// Whether the writer thread has something to do, now that a job has ended as `outcome` says.
    /// Decides which system calls a commit costs: a writer that is not needed is not woken.
    pub(crate) fn needs_writer(&self, outcome: &JobOutcome, parked: Parked) -> bool {
        let pipeline = &self.pipeline;
        let idle = !self.buffer.has_staged() && pipeline.in_flight_writes() == 0;
        // A job that has a next leader among the committers is that one's.
        let job =
            self.has_job() && !pipeline.leader.is_awaited && !Wake::WriterForJob.is_forgotten();
        let stamp = idle && pipeline.stamps.is_due || parked.idle && pipeline.lacks_stamp();
        let callback = self.has_callback() && !Wake::WriterForCallback.is_forgotten();
        let statistics = parked.statistics && outcome.durable.is_some();
        let location = parked.location && !Wake::WriterForLocation.is_forgotten();
        job || self.has_overflow() || stamp || callback || statistics || location
    }
}

/// For what the writer thread sleeps until it is woken, and not only until some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    /// It had nothing to do, and waits for the first record that lacks a stamp.
    pub(crate) idle: bool,
    /// The page of statistics says all there is to say.
    pub(crate) statistics: bool,
    /// It has looked for the log's files since anything was written.
    pub(crate) location: bool,
}
