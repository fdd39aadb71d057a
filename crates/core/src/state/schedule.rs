//! Which job is next, and how it writes: a pure decision from what is staged, what is in flight and
//! what callers have requested.

use crate::policy::SyncLevel;
use crate::state::State;
use crate::state::batch::BatchBuilder;
use crate::state::pipeline::{Durability, JobNumbers, JobOutcome, WriteKind};
use crate::sync::wake::Wake;
use logforce_device::Barrier;
use logforce_format::{BatchKind, planted};
use std::time::Duration;

/// More batches than this cost less as plain writes with one barrier than as write-throughs one by
/// one.
const MAX_THROUGH_BATCHES: usize = 2;

/// Batches to write and how. The thread that takes a job is its leader and must carry it out: no
/// other thread writes these batches.
#[must_use]
pub(crate) struct Job {
    pub(crate) kind: WriteKind,
    pub(crate) batches: Vec<BatchBuilder>,
    pub(crate) numbers: JobNumbers,
    /// When the oldest submission was accepted that this job makes durable, by the log's clock.
    pub(crate) oldest_submission: Option<Duration>,
}

impl State {
    /// The job that callers have requested, if it can start now.
    fn requested_job(&self) -> Option<WriteKind> {
        let pipeline = &self.pipeline;
        let staged = self.buffer.has_staged();
        let barrier = staged && pipeline.requests_staged(SyncLevel::Barrier);
        let force = staged && pipeline.requests_staged(SyncLevel::Force);
        let write =
            staged && pipeline.requests_staged(SyncLevel::Write) && !pipeline.writes_plainly();
        if barrier || force {
            let kind = self.force_kind(barrier);
            // A caller that requested only a write does not wait for another caller's barrier.
            return kind.or((write && pipeline.has_pending_sync())
                .then_some(WriteKind::Plain { forces: false }));
        }
        if write {
            return Some(WriteKind::Plain { forces: false });
        }
        let alone = pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync();
        (alone && pipeline.requests_sync()).then(|| WriteKind::Barrier(self.barrier()))
    }

    fn force_kind(&self, barrier: bool) -> Option<WriteKind> {
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

    /// Whether a write-through is a force. Only where nothing before it is unforced: a crash would
    /// keep the write and lose what lies before.
    fn may_write_through(&self, suffices: bool) -> bool {
        let pipeline = &self.pipeline;
        suffices
            && (!pipeline.has_unforced() || planted!("unforced-neighbour"))
            && !pipeline.has_pending_sync()
            && !pipeline.writes_plainly()
            && self.buffer.staged_batches() <= MAX_THROUGH_BATCHES
    }

    fn may_be_in_flight(&self) -> bool {
        match self.pipeline.in_flight_writes() {
            0 => true,
            n => n < self.limits.max_writes && self.buffer.staged() >= self.limits.threshold,
        }
    }

    fn barrier(&self) -> Barrier {
        match self.durability {
            Durability::Barrier(kind) => kind,
            _ => Barrier::Data,
        }
    }

    /// Whether full batches must be written to free buffer space, and no force will do it.
    fn overflows(&self) -> bool {
        self.buffer.has_full()
            && !self.pipeline.writes_plainly()
            && !self.pipeline.requests_staged(SyncLevel::Force)
    }

    /// Whether [`State::take`] would find a job.
    pub(crate) fn has_job(&self) -> bool {
        self.requested_job().is_some()
    }

    /// Whether [`State::take_overflow`] would find a job.
    pub(crate) fn has_overflow(&self) -> bool {
        self.overflows()
    }

    /// Takes the job that callers have requested.
    pub(crate) fn take(&mut self) -> Option<Job> {
        let kind = self.requested_job()?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, false))
    }

    /// Takes the oldest full batch, to be written without a force.
    pub(crate) fn take_overflow(&mut self) -> Option<Job> {
        if !self.overflows() {
            return None;
        }
        let batches = self.buffer.take_full().into_iter().collect();
        Some(self.launch(WriteKind::Plain { forces: false }, batches, false))
    }

    /// Takes a stamp, and what is staged before it, if nothing is in flight and there is space for
    /// one. The staged records become durable with it; the durable LSN does not cover them until a
    /// caller requests that.
    pub(crate) fn take_stamp(&mut self) -> Option<Job> {
        if self.pipeline.in_flight_writes() > 0
            || self.pipeline.has_pending_sync()
            || !self.has_space_for_empty_batch()
        {
            return None;
        }
        let quiet = self.buffer.has_staged() || self.pipeline.written() > self.pipeline.durable();
        self.place_empty_batch(BatchKind::Stamp, None);
        let kind = self.force_kind(false)?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, quiet))
    }

    fn launch(&mut self, kind: WriteKind, mut batches: Vec<BatchBuilder>, quiet: bool) -> Job {
        let numbers = self.pipeline.launch(kind, quiet, &mut batches);
        let oldest_submission = match kind {
            // A later job forces it.
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

    /// Whether the writer thread must be woken after a job with this `outcome`. A wake-up costs the
    /// committer a system call, so there is none without work.
    pub(crate) fn needs_writer(&self, outcome: &JobOutcome, parked: Parked) -> bool {
        let pipeline = &self.pipeline;
        let idle = !self.buffer.has_staged() && pipeline.in_flight_writes() == 0;
        // If a committer waits to lead, the job is its.
        let job =
            self.has_job() && !pipeline.leader.is_awaited && !Wake::WriterForJob.is_forgotten();
        let stamp = idle && pipeline.stamps.is_due || parked.idle && pipeline.lacks_stamp();
        let callback = self.has_callback() && !Wake::WriterForCallback.is_forgotten();
        let statistics = parked.statistics && outcome.durable.is_some();
        let location = parked.location && !Wake::WriterForLocation.is_forgotten();
        job || self.has_overflow() || stamp || callback || statistics || location
    }
}

/// Work for which the writer thread sleeps without a timeout: it must be woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    /// It waits for the first force without a stamp.
    pub(crate) idle: bool,
    /// The page of statistics is up to date.
    pub(crate) statistics: bool,
    /// It has checked the log's location since the last write.
    pub(crate) location: bool,
}
