//! Pipeline of the batches that are in flight, written and durable. It only changes memory, under the log's
//! only mutex.

use crate::policy::WaitLevel;
use crate::state::batch::BatchBuilder;
use crate::storage::segment::Segment;
use crate::storage::zero_fill::Workload;
use logforce_commit::write_concurrency::{Share, WriteConcurrency};
use logforce_device::{Barrier, ForceBy, Guarantee, Plan};
use logforce_format::{Anchor, BatchHeader, Epoch, LogId, Lsn, planted, seal};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Mechanism that makes a write durable with this method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Each write is durable by itself, but *only that write*: a write-through, or a device without a
    /// volatile cache.
    Each { through: bool },
    /// A barrier after the write.
    Barrier(Barrier),
    /// None: with a weak method, a force is done when the bytes are written.
    Weak,
}

impl Durability {
    pub(crate) fn new(plan: Plan, guarantee: Guarantee) -> Self {
        match plan.force {
            ForceBy::Through => Durability::Each { through: true },
            ForceBy::Barrier(kind) => Durability::Barrier(kind),
            ForceBy::None if guarantee == Guarantee::PowerLoss => {
                Durability::Each { through: false }
            }
            ForceBy::None => Durability::Weak,
        }
    }
}

/// Kind of write of a job, and the mechanism that makes it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// The write is durable by itself.
    Each { through: bool },
    /// The write is not durable. If `forces`, it nevertheless counts as a force, with a weak method.
    Plain { forces: bool },
    /// A barrier after the write covers everything that is written but not forced.
    Barrier(Barrier),
}

impl WriteKind {
    /// Returns true if the written batches count as forced when the job is done.
    pub(crate) fn forces(self) -> bool {
        self != WriteKind::Plain { forces: false }
    }

    /// Returns the name of the kind in events.
    pub(crate) fn label(self) -> &'static str {
        match self {
            WriteKind::Each { through: true } => "through",
            WriteKind::Each { through: false } => "durable",
            WriteKind::Plain { forces: true } => "weak",
            WriteKind::Plain { forces: false } => "write",
            WriteKind::Barrier(_) => "barrier",
        }
    }
}

/// Position after a batch, with the facts that a scan from there needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchBoundary {
    pub(crate) anchor: Anchor,
    /// True if an atomic append continues beyond the position: no scan may start there.
    pub(crate) open: bool,
}

/// A write in flight, of one batch or of several contiguous ones.
struct InFlightWrite {
    job: u32,
    kind: WriteKind,
    end: Lsn,
    batches: usize,
    segments: Vec<Arc<Segment>>,
    after: BatchBoundary,
    /// True for a stamp whose write includes records that no caller has requested to force. When it is done,
    /// the durable LSN moves only if a caller has requested a force meanwhile.
    quiet: bool,
    done: bool,
    share: Share,
}

/// The barrier in flight.
#[derive(Clone, Copy)]
struct PendingSync {
    job: u32,
    /// Sealed LSN when the job began. The bytes below it are those that the job makes durable.
    target: Lsn,
    /// Written LSN when the barrier began. The barrier covers everything below it as well.
    covered: Lsn,
    after: BatchBoundary,
}

/// Changes after a write or a barrier is done.
#[derive(Default)]
pub(crate) struct JobOutcome {
    /// Jobs that are done: their waiters can return.
    pub(crate) jobs: Vec<u32>,
    /// Durable LSN, if it moved.
    pub(crate) durable: Option<Lsn>,
    /// Segments that are full and forced: no more bytes are written to them.
    pub(crate) finished: Vec<Arc<Segment>>,
}

/// Fields that are the same in every batch of this opening.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) log_id: LogId,
    pub(crate) epoch: Epoch,
}

/// LSNs up to which the log is sealed, written and durable.
struct Watermarks {
    /// End of the last sealed batch.
    sealed: BatchBoundary,
    /// End of the contiguous prefix that is written.
    written: BatchBoundary,
    /// LSN below which everything is durable by a write-through or a barrier.
    safe: Lsn,
    /// Durable LSN of the log. It is above `safe` with a weak method. It is below `safe` after a stamp whose
    /// write included records that no caller had requested to force.
    durable: Lsn,
    /// LSN below which everything survives loss of power. It is the stamp of the next batch.
    stamp: Lsn,
}

/// LSNs up to which callers have requested a write, a force, a barrier.
#[derive(Default)]
struct Requests {
    write: Lsn,
    force: Lsn,
    barrier: Lsn,
    /// Number of requests to write.
    writes: u64,
}

/// State of the jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Number of the next job.
    pub(crate) next: u32,
    /// True if a committer waits to lead the next job when one ends.
    pub(crate) has_next_leader: bool,
    /// Number of jobs in progress.
    pub(crate) running: u32,
}

/// Forces that are done, and those that a stamp on the device covers.
#[derive(Default)]
pub(crate) struct Stamps {
    /// Number of forces that are done.
    pub(crate) forces: u64,
    /// Number of forces that a stamp covers.
    pub(crate) stamped: u64,
    /// True if the last force covered several batches, so that no stamp covers its end.
    pub(crate) is_due: bool,
    /// Number of batches written since the last force.
    batches: usize,
}

/// Batches from sealing to durable.
pub(crate) struct WritePipeline {
    identity: Identity,
    guarantee: Guarantee,
    barrier_is_durable: bool,
    watermarks: Watermarks,
    in_flight: VecDeque<InFlightWrite>,
    pending_sync: Option<PendingSync>,
    /// Latest boundary at or below `safe` that lies in no atomic append.
    pub(crate) anchor: Anchor,
    /// Segments that were written since the last barrier. A force must sync all of them. A write-through
    /// makes only itself durable, so a crash could keep it and lose the batches before it.
    unforced: Vec<Arc<Segment>>,
    /// Void ranges whose batch is not durable yet.
    voids: Vec<(Lsn, Lsn)>,
    requests: Requests,
    pub(crate) jobs: Jobs,
    pub(crate) stamps: Stamps,
    /// Limit of the number of writes in flight.
    pub(crate) write_concurrency: WriteConcurrency,
}

impl WritePipeline {
    /// Creates a pipeline that continues at `anchor`. Everything below is durable.
    pub(crate) fn new(
        identity: Identity,
        guarantee: Guarantee,
        barrier_is_durable: bool,
        anchor: Anchor,
        stamp: Lsn,
        write_concurrency: WriteConcurrency,
    ) -> Self {
        let boundary = BatchBoundary {
            anchor,
            open: false,
        };
        WritePipeline {
            identity,
            guarantee,
            barrier_is_durable,
            watermarks: Watermarks {
                sealed: boundary,
                written: boundary,
                safe: anchor.lsn,
                durable: anchor.lsn,
                stamp,
            },
            in_flight: VecDeque::new(),
            pending_sync: None,
            anchor,
            unforced: Vec::new(),
            voids: Vec::new(),
            requests: Requests::default(),
            jobs: Jobs::default(),
            stamps: Stamps::default(),
            write_concurrency,
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.watermarks.durable
    }

    pub(crate) fn written(&self) -> Lsn {
        self.watermarks.written.anchor.lsn
    }

    /// Returns the anchor that a known bug writes: the end of the written prefix, durable or not.
    pub(crate) fn written_anchor(&self) -> Anchor {
        self.watermarks.written.anchor
    }

    /// Returns the end of the batches that jobs have taken.
    pub(crate) fn sealed(&self) -> Lsn {
        self.watermarks.sealed.anchor.lsn
    }

    pub(crate) fn in_flight_writes(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns true if a write is in flight that is not durable by itself.
    pub(crate) fn has_undurable_write_in_flight(&self) -> bool {
        self.in_flight
            .iter()
            .any(|f| !matches!(f.kind, WriteKind::Each { .. }))
    }

    pub(crate) fn has_pending_sync(&self) -> bool {
        self.pending_sync.is_some()
    }

    /// Returns true if a barrier is due because [`MAX_UNFORCED_SEGMENTS`] segments lack one.
    pub(crate) fn has_many_unforced(&self) -> bool {
        self.unforced.len() >= MAX_UNFORCED_SEGMENTS
    }

    /// Returns true if written bytes exist that no barrier has covered.
    pub(crate) fn has_unforced(&self) -> bool {
        !self.unforced.is_empty()
    }

    /// Returns true if no job runs, and a barrier has covered everything that was written.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.running == 0
            && self.in_flight.is_empty()
            && self.pending_sync.is_none()
            && self.unforced.is_empty()
    }

    /// Notes a commit of everything below `end`, at `now` by the log's clock. It waits for a new write,
    /// unless a write in flight already contains it.
    pub(crate) fn commit_came(&mut self, end: Lsn, now: Duration) {
        if end > self.sealed() {
            self.write_concurrency.came(now);
        }
    }

    /// Requests that everything below `end` reach `level`.
    pub(crate) fn request(&mut self, level: WaitLevel, end: Lsn) {
        let requested = match level {
            WaitLevel::Write => {
                self.requests.writes += 1;
                &mut self.requests.write
            }
            WaitLevel::Force => &mut self.requests.force,
            WaitLevel::Barrier => &mut self.requests.barrier,
        };
        *requested = (*requested).max(end);
    }

    /// Returns the number of forces and of requests to write.
    pub(crate) fn load(&self) -> Workload {
        Workload {
            bytes: 0,
            forces: self.stamps.forces,
            writes: self.requests.writes,
        }
    }

    /// Returns true if a caller has requested `level` for records that are still staged.
    pub(crate) fn requests_staged(&self, level: WaitLevel) -> bool {
        let requested = match level {
            WaitLevel::Write => self.requests.write,
            WaitLevel::Force => self.requests.force,
            WaitLevel::Barrier => self.requests.barrier,
        };
        requested > self.sealed()
    }

    /// Returns true if written batches need a barrier, because a caller has requested it, or because too many
    /// segments lack one.
    pub(crate) fn requests_sync(&self) -> bool {
        self.requests.force > self.watermarks.durable.max(self.watermarks.safe)
            || self.requests.barrier > self.anchor.lsn
            || self.unforced.len() >= MAX_UNFORCED_SEGMENTS
    }

    /// Returns true if everything below `end` has reached `level`.
    pub(crate) fn has_reached(&self, level: WaitLevel, end: Lsn) -> bool {
        match level {
            WaitLevel::Write => self.written() >= end || self.watermarks.durable >= end,
            WaitLevel::Force => self.watermarks.durable >= end,
            WaitLevel::Barrier => self.anchor.lsn >= end,
        }
    }

    /// Moves the durable LSN to the position that a quiet stamp has already made durable, if that covers
    /// `end`.
    pub(crate) fn catch_up(&mut self, end: Lsn) -> Option<JobOutcome> {
        if self.watermarks.safe < end || self.watermarks.durable >= end {
            return None;
        }
        let mut outcome = JobOutcome::default();
        self.advance(self.watermarks.safe, &mut outcome);
        Some(outcome)
    }

    /// Returns the job in progress after which `end` will have reached `level`.
    pub(crate) fn covering_job(&self, level: WaitLevel, end: Lsn) -> Option<u32> {
        let write = self.in_flight.iter().find(|f| {
            f.end >= end
                && match (level, f.kind) {
                    (WaitLevel::Write, _) | (_, WriteKind::Each { .. }) => true,
                    (WaitLevel::Force, WriteKind::Plain { forces }) => forces,
                    _ => false,
                }
        });
        let pending_sync = self
            .pending_sync
            .filter(|f| level != WaitLevel::Write && f.target >= end);
        write.map(|f| f.job).or(pending_sync.map(|f| f.job))
    }

    /// Seals the batches of a job in LSN order, and registers the job.
    pub(crate) fn launch(
        &mut self,
        kind: WriteKind,
        quiet: bool,
        batches: &mut [BatchBuilder],
    ) -> JobNumbers {
        for batch in &mut *batches {
            self.seal(batch);
        }
        self.jobs.running += 1;
        if !planted!("claim-kept") {
            self.jobs.has_next_leader = false;
        }
        if planted!("ack-before-landing") {
            self.watermarks.durable = self.sealed();
        }
        let write = (!batches.is_empty()).then(|| {
            let mut segments: Vec<Arc<Segment>> = Vec::new();
            for batch in &*batches {
                add(&mut segments, &batch.segment);
            }
            let share = match kind {
                WriteKind::Barrier(_) => self.write_concurrency.begin_barrier(),
                _ => {
                    let bytes = batches.iter().map(BatchBuilder::extent).sum();
                    self.write_concurrency.begin(bytes)
                }
            };
            self.next_job(|pipeline, job| {
                pipeline.in_flight.push_back(InFlightWrite {
                    job,
                    kind,
                    end: pipeline.sealed(),
                    batches: batches.len(),
                    segments,
                    after: pipeline.watermarks.sealed,
                    quiet,
                    done: false,
                    share,
                });
            })
        });
        let sync = matches!(kind, WriteKind::Barrier(_)).then(|| {
            self.next_job(|pipeline, job| {
                pipeline.pending_sync = Some(PendingSync {
                    job,
                    target: pipeline.sealed(),
                    covered: pipeline.sealed(),
                    after: pipeline.watermarks.sealed,
                });
            })
        });
        JobNumbers { write, sync, quiet }
    }

    fn next_job(&mut self, note: impl FnOnce(&mut Self, u32)) -> u32 {
        let job = self.jobs.next;
        note(self, job);
        self.jobs.next = job.wrapping_add(1);
        job
    }

    fn seal(&mut self, batch: &mut BatchBuilder) {
        let mut header = BatchHeader {
            log_id: self.identity.log_id,
            lsn: batch.lsn,
            epoch: self.identity.epoch,
            kind: batch.kind,
            stamp: self.watermarks.stamp,
            void_from: batch.void_from,
            last_void: self.watermarks.sealed.anchor.last_void,
            prev_crc: self.watermarks.sealed.anchor.prev_crc,
            payload_len: batch.payload as u32,
            payload_crc: batch.payload_crc,
            frames: batch.frames,
            prev_epoch: Epoch::default(),
            crc: 0,
        };
        let extent = batch.extent();
        let crc = seal(&mut batch.buf[..extent], &mut header);
        let anchor = &mut self.watermarks.sealed.anchor;
        anchor.prev_crc = crc;
        anchor.epoch = self.identity.epoch;
        if header.voids() {
            if !planted!("void-not-listed") {
                anchor.last_void = header.lsn;
            }
            self.voids.push((header.void_from, header.lsn));
        }
        anchor.lsn = batch.end();
        self.watermarks.sealed.open = batch.open_from.is_some();
    }

    /// Registers that the writes of `job`, which took `took`, are done at `now` by the log's clock.
    pub(crate) fn write_done(&mut self, job: u32, now: Duration, took: Duration) -> JobOutcome {
        let mut outcome = JobOutcome::default();
        let write = self.in_flight.iter_mut().find(|f| f.job == job);
        if let Some(write) = write {
            write.done = true;
        }
        while let Some(write) = self.take_done() {
            self.watermarks.written = write.after;
            self.stamps.batches += write.batches;
            outcome.jobs.push(write.job);
            self.write_concurrency.acknowledged(write.share, now, took);
            match write.kind {
                WriteKind::Each { .. } => {
                    self.watermarks.safe = write.end;
                    self.advance_anchor(write.after);
                    if self.guarantee == Guarantee::PowerLoss {
                        self.watermarks.stamp = write.end;
                    }
                    for segment in write.segments {
                        if segment.header.end() <= write.end {
                            outcome.finished.push(segment);
                        }
                    }
                    if !write.quiet || self.requests.force > self.watermarks.durable {
                        self.advance(write.end, &mut outcome);
                    }
                }
                WriteKind::Plain { forces } => {
                    for segment in &write.segments {
                        add(&mut self.unforced, segment);
                    }
                    if planted!("stamp-of-a-weak-method") {
                        self.watermarks.stamp = write.end;
                    }
                    if forces {
                        self.advance(write.end, &mut outcome);
                    }
                }
                WriteKind::Barrier(_) => {
                    for segment in &write.segments {
                        add(&mut self.unforced, segment);
                    }
                    if planted!("ack-before-barrier") {
                        self.advance(write.end, &mut outcome);
                    }
                }
            }
        }
        outcome
    }

    /// Takes the first write in flight if it is done. Only the contiguous prefix counts, because recovery
    /// ends the log at the first hole after a crash.
    fn take_done(&mut self) -> Option<InFlightWrite> {
        let first = self.in_flight.front()?;
        let is_done = planted!("hole-under-watermark", true, else first.done);
        match is_done {
            true => self.in_flight.pop_front(),
            false => None,
        }
    }

    /// Returns the segments that the barrier must cover. Later writes belong to the next barrier.
    pub(crate) fn begin_sync(&mut self) -> Vec<Arc<Segment>> {
        let written = self.written();
        if let Some(pending_sync) = &mut self.pending_sync {
            pending_sync.covered = written;
        }
        std::mem::take(&mut self.unforced)
    }

    /// Registers that the barrier is done, on all of `segments`.
    pub(crate) fn end_sync(&mut self, segments: Vec<Arc<Segment>>, quiet: bool) -> JobOutcome {
        let mut outcome = JobOutcome::default();
        let Some(mut pending_sync) = self.pending_sync.take() else {
            return outcome;
        };
        if planted!("barrier-covers-what-came-later") {
            pending_sync.target = self.written();
            pending_sync.after = self.watermarks.written;
        }
        outcome.jobs.push(pending_sync.job);
        self.watermarks.safe = pending_sync.target;
        self.advance_anchor(pending_sync.after);
        if self.guarantee == Guarantee::PowerLoss || self.barrier_is_durable {
            self.watermarks.stamp = pending_sync.target;
        }
        for segment in segments {
            if segment.header.end() <= pending_sync.covered.max(pending_sync.target) {
                outcome.finished.push(segment);
            }
        }
        if !quiet || self.requests.force > self.watermarks.durable {
            self.advance(pending_sync.target, &mut outcome);
        }
        outcome
    }

    fn advance_anchor(&mut self, boundary: BatchBoundary) {
        if !boundary.open {
            self.anchor = boundary.anchor;
        }
    }

    fn advance(&mut self, to: Lsn, outcome: &mut JobOutcome) {
        // With a weak method, `durable` is ahead of the last barrier.
        if to > self.watermarks.durable {
            self.watermarks.durable = to;
            outcome.durable = Some(to);
        }
        self.stamps.forces += 1;
        if self.stamps.batches > 1 && self.guarantee == Guarantee::PowerLoss {
            // The last batch was sealed before the first one was durable, so its stamp lies below both.
            self.stamps.is_due = true;
        }
        self.stamps.batches = 0;
    }

    /// Takes the void ranges whose batch is durable.
    pub(crate) fn take_durable_voids(&mut self) -> Vec<(Lsn, Lsn)> {
        if self.voids.is_empty() {
            return Vec::new();
        }
        let durable = self.watermarks.durable;
        let (out, rest) = std::mem::take(&mut self.voids)
            .into_iter()
            .partition(|&(_, batch)| batch < durable);
        self.voids = rest;
        out
    }

    /// Returns true if no stamp covers the last force.
    pub(crate) fn lacks_stamp(&self) -> bool {
        self.guarantee == Guarantee::PowerLoss && self.stamps.forces != self.stamps.stamped
    }
}

/// Numbers of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobNumbers {
    pub(crate) write: Option<u32>,
    pub(crate) sync: Option<u32>,
    pub(crate) quiet: bool,
}

/// Number of segments without a barrier at which one is due. Each of them stays open until then.
const MAX_UNFORCED_SEGMENTS: usize = 4;

fn add(segments: &mut Vec<Arc<Segment>>, segment: &Arc<Segment>) {
    if !segments.iter().any(|s| Arc::ptr_eq(s, segment)) {
        segments.push(segment.clone());
    }
}
