//! Decision which job is next, and how it writes. It depends only on the staged batches, on the writes in
//! flight, and on the requests of callers.

use crate::policy::WaitLevel;
use crate::state::State;
use crate::state::batch::BatchBuilder;
use crate::state::pipeline::{Durability, JobNumbers, JobOutcome, WriteKind};
use crate::sync::wake::Wake;
use logforce_device::Barrier;
use logforce_format::{BatchKind, planted};
use std::time::Duration;

/// Maximum number of batches that are written through. More batches cost less as plain writes with one
/// barrier.
const MAX_THROUGH_BATCHES: usize = 2;

/// Batches to write, and the kind of write. The thread that takes a job is its leader, and must carry it out:
/// no other thread writes these batches.
#[must_use]
pub(crate) struct Job {
    pub(crate) kind: WriteKind,
    pub(crate) batches: Vec<BatchBuilder>,
    pub(crate) numbers: JobNumbers,
    /// Time at which the oldest submission was accepted that this job makes durable, by the log's clock.
    pub(crate) oldest_submission: Option<Duration>,
}

impl State {
    /// Returns the kind of the job that callers have requested, if it can start now. With `gathers`, returns
    /// `None` while it pays to wait for more commits.
    fn requested_job(&self, gathers: bool) -> Option<WriteKind> {
        let pipeline = &self.pipeline;
        let staged = self.buffer.has_staged();
        let barrier = staged && pipeline.requests_staged(WaitLevel::Barrier);
        let force = staged && pipeline.requests_staged(WaitLevel::Force);
        let write = staged
            && pipeline.requests_staged(WaitLevel::Write)
            && !pipeline.has_undurable_write_in_flight();
        if barrier || force {
            let kind = self.force_kind(barrier, gathers);
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

    fn force_kind(&self, barrier: bool, gathers: bool) -> Option<WriteKind> {
        let pipeline = &self.pipeline;
        match self.durability {
            Durability::Each { through } if self.may_write_through(through || !barrier) => self
                .may_be_in_flight(gathers)
                .then_some(WriteKind::Each { through }),
            Durability::Weak if !barrier => self
                .may_be_in_flight(gathers)
                .then_some(WriteKind::Plain { forces: true }),
            _ => (pipeline.in_flight_writes() == 0 && !pipeline.has_pending_sync())
                .then(|| WriteKind::Barrier(self.barrier())),
        }
    }

    /// Returns true if a write-through is a force. That requires that no unforced bytes lie before it:
    /// otherwise a crash could keep the write and lose the bytes before it.
    fn may_write_through(&self, suffices: bool) -> bool {
        let pipeline = &self.pipeline;
        let has_unforced = planted!("unforced-neighbour", false, else pipeline.has_unforced());
        suffices
            && !has_unforced
            && !pipeline.has_pending_sync()
            && !pipeline.has_undurable_write_in_flight()
            && self.buffer.staged_batches() <= MAX_THROUGH_BATCHES
    }

    fn may_be_in_flight(&self, gathers: bool) -> bool {
        let (writes, staged) = (self.pipeline.in_flight_writes(), self.buffer.staged());
        let write_concurrency = &self.pipeline.write_concurrency;
        write_concurrency.allows(writes, staged) && !(gathers && write_concurrency.gathers(staged))
    }

    fn barrier(&self) -> Barrier {
        match self.durability {
            Durability::Barrier(kind) => kind,
            _ => Barrier::Data,
        }
    }

    /// Returns true if full batches must be written to free buffer space, and no force will write them.
    fn overflows(&self) -> bool {
        self.buffer.has_full()
            && !self.pipeline.has_undurable_write_in_flight()
            && !self.pipeline.requests_staged(WaitLevel::Force)
    }

    /// Returns true if [`State::take`] would find a job.
    pub(crate) fn has_job(&self) -> bool {
        self.requested_job(false).is_some()
    }

    /// Returns true if there is a job that the writer thread must lead. If a committer waits to lead, the
    /// committer takes the job.
    pub(crate) fn lacks_leader(&self) -> bool {
        !self.pipeline.jobs.has_next_leader && self.has_job()
    }

    /// Returns true if [`State::take_overflow`] would find a job.
    pub(crate) fn has_overflow(&self) -> bool {
        self.overflows()
    }

    /// Takes the job that callers have requested.
    pub(crate) fn take(&mut self) -> Option<Job> {
        self.take_unless(false)
    }

    /// Takes a job as [`State::take`] does, for a committer, but none while it pays to wait for more commits.
    /// The caller then waits no longer than
    /// [`WriteConcurrency::gathers_for`](super::write_concurrency::WriteConcurrency::gathers_for) permits.
    pub(crate) fn take_or_gather(&mut self) -> Option<Job> {
        self.take_unless(true)
    }

    fn take_unless(&mut self, gathers: bool) -> Option<Job> {
        let kind = self.requested_job(gathers)?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, false))
    }

    /// Takes the oldest full batch, which is written without a force.
    pub(crate) fn take_overflow(&mut self) -> Option<Job> {
        if !self.overflows() {
            return None;
        }
        let batches = self.buffer.take_full().into_iter().collect();
        Some(self.launch(WriteKind::Plain { forces: false }, batches, false))
    }

    /// Takes a stamp, and the batches staged before it, if no write is in flight and there is space for a
    /// stamp. The staged records become durable with it, but the durable LSN does not cover them until a
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
        let kind = self.force_kind(false, false)?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, quiet))
    }

    fn launch(&mut self, kind: WriteKind, mut batches: Vec<BatchBuilder>, quiet: bool) -> Job {
        let numbers = self.pipeline.launch(kind, quiet, &mut batches);
        let oldest_submission = match kind {
            // A later job forces the submission.
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

    /// Returns true if the writer thread must be woken after a job with this `outcome`. A wake-up costs the
    /// committer a system call, so the writer is only woken for work.
    pub(crate) fn needs_writer(&self, outcome: &JobOutcome, parked: Parked) -> bool {
        let pipeline = &self.pipeline;
        let idle = !self.buffer.has_staged() && pipeline.in_flight_writes() == 0;
        let job = Wake::WriterForJob.if_needed(self.lacks_leader());
        let stamp = idle && pipeline.stamps.is_due || parked.idle && pipeline.lacks_stamp();
        let callback = Wake::WriterForCallback.if_needed(self.has_callback());
        let statistics = parked.statistics && outcome.durable.is_some();
        let location = Wake::WriterForLocation.if_needed(parked.location);
        job || self.has_overflow() || stamp || callback || statistics || location
    }
}

/// Kinds of work for which the writer thread sleeps without a timeout, so that it must be woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    /// True if it waits for the first force without a stamp.
    pub(crate) idle: bool,
    /// True if the page of statistics is up to date.
    pub(crate) statistics: bool,
    /// True if it has checked the log's location since the last write.
    pub(crate) location: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::state::buffers::Buffers;
    use crate::state::completions::Completion;
    use crate::state::log_buffer::LogBuffer;
    use crate::state::pipeline::{Identity, WritePipeline};
    use crate::state::segment_queue::SegmentQueue;
    use crate::storage::segment::Segment;
    use crate::types::RecordRange;
    use logforce_commit::write_concurrency::WriteConcurrency;
    use logforce_device::Guarantee;
    use logforce_format::{Anchor, Epoch, LogId, Lsn, SegmentHeader};
    use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
    use std::collections::VecDeque;
    use std::path::Path;
    use std::sync::Arc;

    const UNIT: u32 = 4096;
    const MAX_BATCH: usize = 4 * UNIT as usize;
    /// The writer sleeps without a timeout for no kind of work.
    const AWAKE: Parked = Parked {
        idle: false,
        statistics: false,
        location: false,
    };

    /// Returns the state of an empty log that writes through.
    fn empty() -> State {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let dir = SimRuntime::run(1, |rt| disk.system(rt).make_directory(Path::new("/log")));
        let header = SegmentHeader {
            log_id: LogId([1; 16]),
            start: Lsn::ORIGIN,
            len: 1 << 20,
            write_unit: UNIT,
            epoch: Epoch::default(),
            unwritten: false,
        };
        let segment = Arc::new(Segment::new(dir.unwrap(), "segment".to_owned(), header));
        let first = header.first_batch();
        let identity = Identity {
            log_id: header.log_id,
            epoch: header.epoch,
        };
        let anchor = Anchor {
            lsn: first,
            prev_crc: 0,
            epoch: header.epoch,
            last_void: Lsn::ORIGIN,
        };
        State::new(
            LogBuffer::new(
                MAX_BATCH,
                4 * MAX_BATCH,
                Buffers::new(MAX_BATCH, UNIT as usize, 1, None),
            ),
            SegmentQueue::new(segment, VecDeque::new(), first, Lsn(u64::MAX / 2), 1 << 20),
            WritePipeline::new(
                identity,
                Guarantee::PowerLoss,
                true,
                anchor,
                first,
                WriteConcurrency::new((2, 2), 2, 0),
            ),
            Durability::Each { through: true },
        )
    }

    fn stage(state: &mut State, bytes: usize) {
        state.stage(&[&[&vec![7; bytes]]], |_, _| {});
    }

    fn after(state: &State, parked: Parked) -> bool {
        state.needs_writer(&JobOutcome::default(), parked)
    }

    fn needs_writer(state: &State) -> bool {
        after(state, AWAKE)
    }

    #[test]
    fn the_writer_sleeps_while_there_is_nothing_to_do() {
        let mut state = empty();
        assert!(!needs_writer(&state));
        // No caller has requested more than staging.
        stage(&mut state, 100);
        assert!(!needs_writer(&state));
    }

    #[test]
    fn the_writer_leads_a_job_that_no_committer_waits_to_lead() {
        let mut state = empty();
        stage(&mut state, 100);
        state.pipeline.request(WaitLevel::Force, state.tail());
        assert!(needs_writer(&state));
        state.pipeline.jobs.has_next_leader = true;
        assert!(!needs_writer(&state));
    }

    #[test]
    fn the_writer_writes_full_batches_that_no_force_takes() {
        let mut state = empty();
        stage(&mut state, MAX_BATCH);
        assert!(needs_writer(&state));
        // A committer leads the force that takes them.
        state.pipeline.request(WaitLevel::Force, state.tail());
        state.pipeline.jobs.has_next_leader = true;
        assert!(!needs_writer(&state));
    }

    #[test]
    fn the_writer_writes_a_stamp_that_is_due_once_nothing_is_staged_or_in_flight() {
        let mut state = empty();
        state.pipeline.stamps.is_due = true;
        assert!(needs_writer(&state));
        stage(&mut state, 100);
        assert!(!needs_writer(&state), "staged");
        state.pipeline.request(WaitLevel::Force, state.tail());
        let job = state.take().unwrap();
        assert!(!needs_writer(&state), "in flight");
        let outcome =
            state
                .pipeline
                .write_done(job.numbers.write.unwrap(), Duration::ZERO, Duration::ZERO);
        assert!(state.needs_writer(&outcome, AWAKE));
    }

    #[test]
    fn readers_learn_of_a_void_range_when_its_batch_is_durable() {
        let mut state = empty();
        let voided = state.tail();
        stage(&mut state, 100);
        state.pipeline.request(WaitLevel::Force, state.tail());
        let first = state.take().unwrap().numbers.write.unwrap();
        let voids = state.pipeline.sealed();
        let end = state.place_empty_batch(BatchKind::Void, Some(voided));
        state.pipeline.request(WaitLevel::Force, end);
        let second = state.take().unwrap().numbers.write.unwrap();
        // The voided records are durable, but the batch that voids them is not: a crash would bring the
        // records back.
        let outcome = state
            .pipeline
            .write_done(first, Duration::ZERO, Duration::ZERO);
        assert_eq!(outcome.durable, Some(voids));
        assert_eq!(state.pipeline.take_durable_voids(), []);
        state
            .pipeline
            .write_done(second, Duration::ZERO, Duration::ZERO);
        assert_eq!(state.pipeline.take_durable_voids(), [(voided, voids)]);
        assert_eq!(state.pipeline.take_durable_voids(), []);
    }

    #[test]
    fn an_idle_writer_learns_of_the_first_force_without_a_stamp() {
        let mut state = empty();
        let parked = Parked {
            idle: true,
            ..AWAKE
        };
        assert!(!after(&state, parked), "no force");
        state.pipeline.stamps.forces += 1;
        assert!(after(&state, parked));
        assert!(!needs_writer(&state), "it checks by the clock");
        state.pipeline.stamps.stamped += 1;
        assert!(!after(&state, parked), "a stamp covers it");
    }

    #[test]
    fn the_writer_calls_a_callback_that_is_due() {
        let mut state = empty();
        stage(&mut state, 100);
        let end = state.tail();
        state.completions.push(Completion {
            at: RecordRange { start: end, end },
            policy: Policy::Force,
            call: Box::new(|_| {}),
        });
        assert!(!needs_writer(&state), "not forced yet");
        state.pipeline.request(WaitLevel::Force, end);
        let job = state.take().unwrap();
        let outcome =
            state
                .pipeline
                .write_done(job.numbers.write.unwrap(), Duration::ZERO, Duration::ZERO);
        assert!(state.needs_writer(&outcome, AWAKE));
    }

    #[test]
    fn the_writer_updates_the_statistics_once_the_durable_lsn_moves() {
        let state = empty();
        let parked = Parked {
            statistics: true,
            ..AWAKE
        };
        assert!(!after(&state, parked), "nothing moved");
        let moved = JobOutcome {
            durable: Some(state.tail()),
            ..JobOutcome::default()
        };
        assert!(state.needs_writer(&moved, parked));
        assert!(
            !state.needs_writer(&moved, AWAKE),
            "they are not up to date"
        );
    }

    #[test]
    fn the_writer_checks_the_location_after_a_job() {
        let parked = Parked {
            location: true,
            ..AWAKE
        };
        assert!(after(&empty(), parked));
    }
}
