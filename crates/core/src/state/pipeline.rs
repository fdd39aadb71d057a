//! What is in the air, and what is written and durable. Pure memory, under the log's one mutex.

use crate::policy::SyncLevel;
use crate::state::batch::BatchBuilder;
use crate::storage::segment::Segment;
use logforce_device::{Barrier, ForceBy, Guarantee, Plan};
use logforce_format::{Anchor, BatchHeader, Epoch, LogId, Lsn, planted, seal};
use std::collections::VecDeque;
use std::sync::Arc;

/// What makes a write durable here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Each write is durable by itself, and *only that write*: written through, or there is no
    /// volatile cache.
    Each { through: bool },
    /// A barrier after it.
    Barrier(Barrier),
    /// Nothing: a force is done when the bytes are written.
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

/// How a job makes what it writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// The write does it.
    Each { through: bool },
    /// The write does not; whether it counts as a force all the same.
    Plain { forces: bool },
    /// A barrier after the write, on everything that is written and not forced.
    Barrier(Barrier),
}

impl WriteKind {
    /// Whether what it writes counts as forced when it is done.
    pub(crate) fn forces(self) -> bool {
        self != WriteKind::Plain { forces: false }
    }

    /// For events.
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

/// Where the log stands after some batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchBoundary {
    pub(crate) anchor: Anchor,
    /// An append is begun and not ended there: no scan may start.
    pub(crate) open: bool,
}

/// One write, or several contiguous ones, under way.
struct InFlightWrite {
    generation: u32,
    kind: WriteKind,
    end: Lsn,
    batches: usize,
    segments: Vec<Arc<Segment>>,
    after: BatchBoundary,
    /// Durable when it lands, but nobody asked for that: the durable LSN stays.
    quiet: bool,
    done: bool,
}

/// The barrier under way.
#[derive(Clone, Copy)]
struct PendingSync {
    generation: u32,
    /// It makes everything below durable.
    target: Lsn,
    /// What was written when it began, which it covers too.
    covered: Lsn,
    after: BatchBoundary,
}

/// What a landing changed.
#[derive(Default)]
pub(crate) struct JobOutcome {
    /// The jobs whose waiters may go.
    pub(crate) generations: Vec<u32>,
    /// The durable LSN, if it moved.
    pub(crate) durable: Option<Lsn>,
    /// Segments that are full and forced: nothing will be written there again.
    pub(crate) finished: Vec<Arc<Segment>>,
}

/// Who the log is, as its batches say.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) log_id: LogId,
    pub(crate) epoch: Epoch,
}

/// How far the log has come on its way to the medium.
struct Watermarks {
    /// The last sealed batch.
    sealed: BatchBoundary,
    /// The end of the contiguous prefix that is written.
    written: BatchBoundary,
    /// Everything below is durable by a write through or behind a barrier.
    safe: Lsn,
    /// The log's durable LSN. Above `safe` under a weak method; below it after a stamp that took
    /// records along which nobody had asked to force.
    durable: Lsn,
    /// Everything below is durable against loss of power: what the next batch's stamp says.
    stamp: Lsn,
}

/// How far somebody waits for the log to be written, forced, barriered.
#[derive(Default)]
struct Requests {
    write: Lsn,
    force: Lsn,
    barrier: Lsn,
}

/// Who carries out jobs.
#[derive(Default)]
pub(crate) struct Leader {
    /// Number of the next job.
    pub(crate) generation: u32,
    /// A committer waits to take the next job when one ends.
    pub(crate) is_awaited: bool,
    /// Jobs under way, failed ones excepted.
    pub(crate) running: u32,
}

/// Which forces are written down in a stamp.
#[derive(Default)]
pub(crate) struct Stamps {
    /// How often the durable LSN moved.
    pub(crate) forces: u64,
    /// The last of those times that a stamp covered.
    pub(crate) stamped: u64,
    /// The last force covered more than its own batch: its end is in no stamp.
    pub(crate) is_due: bool,
    /// Batches written since the durable LSN last moved.
    batches: usize,
}

/// Batches from sealing to the medium.
pub(crate) struct WritePipeline {
    identity: Identity,
    guarantee: Guarantee,
    barrier_is_durable: bool,
    marks: Watermarks,
    in_flight: VecDeque<InFlightWrite>,
    pending_sync: Option<PendingSync>,
    /// The latest boundary at or below `safe` where no append is begun and not ended.
    pub(crate) anchor: Anchor,
    /// Segments written to since the last barrier. A force must barrier all of them: a write
    /// through makes only itself durable, and a crash would keep it and lose what lies before.
    unforced: Vec<Arc<Segment>>,
    /// Void ranges whose batch is not durable yet.
    voids: Vec<(Lsn, Lsn)>,
    requests: Requests,
    pub(crate) leader: Leader,
    pub(crate) stamps: Stamps,
}

impl WritePipeline {
    /// A line that continues after `anchor`, with everything below it durable.
    pub(crate) fn new(
        identity: Identity,
        guarantee: Guarantee,
        barrier_is_durable: bool,
        anchor: Anchor,
        stamp: Lsn,
    ) -> Self {
        let mark = BatchBoundary {
            anchor,
            open: false,
        };
        WritePipeline {
            identity,
            guarantee,
            barrier_is_durable,
            marks: Watermarks {
                sealed: mark,
                written: mark,
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
            leader: Leader::default(),
            stamps: Stamps::default(),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.marks.durable
    }

    pub(crate) fn written(&self) -> Lsn {
        self.marks.written.anchor.lsn
    }

    /// Where a known bug puts the anchor.
    pub(crate) fn written_anchor(&self) -> Anchor {
        self.marks.written.anchor
    }

    /// The end of what was handed to jobs.
    pub(crate) fn sealed(&self) -> Lsn {
        self.marks.sealed.anchor.lsn
    }

    pub(crate) fn in_flight_writes(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether a plain write is under way.
    pub(crate) fn writes_plainly(&self) -> bool {
        self.in_flight
            .iter()
            .any(|f| !matches!(f.kind, WriteKind::Each { .. }))
    }

    pub(crate) fn has_pending_sync(&self) -> bool {
        self.pending_sync.is_some()
    }

    /// Something is written and behind no barrier.
    /// Whether so many segments hold something that no barrier has covered that one is due.
    pub(crate) fn has_many_unforced(&self) -> bool {
        self.unforced.len() >= UNFORCED_AT_MOST
    }

    pub(crate) fn has_unforced(&self) -> bool {
        !self.unforced.is_empty()
    }

    /// Notes that `end` is to be reached.
    pub(crate) fn request(&mut self, level: SyncLevel, end: Lsn) {
        let requested = match level {
            SyncLevel::Write => &mut self.requests.write,
            SyncLevel::Force => &mut self.requests.force,
            SyncLevel::Barrier => &mut self.requests.barrier,
        };
        *requested = (*requested).max(end);
    }

    /// Whether somebody wants what is not handed to a job yet to be brought that far.
    pub(crate) fn requests_staged(&self, level: SyncLevel) -> bool {
        let requested = match level {
            SyncLevel::Write => self.requests.write,
            SyncLevel::Force => self.requests.force,
            SyncLevel::Barrier => self.requests.barrier,
        };
        requested > self.sealed()
    }

    /// Whether somebody wants a force or a barrier of what is written, or too many segments wait for
    /// one.
    pub(crate) fn requests_sync(&self) -> bool {
        self.requests.force > self.marks.durable.max(self.marks.safe)
            || self.requests.barrier > self.anchor.lsn
            || self.unforced.len() >= UNFORCED_AT_MOST
    }

    /// Whether `end` has been brought that far.
    pub(crate) fn has_reached(&self, level: SyncLevel, end: Lsn) -> bool {
        match level {
            SyncLevel::Write => self.written() >= end || self.marks.durable >= end,
            SyncLevel::Force => self.marks.durable >= end,
            SyncLevel::Barrier => self.anchor.lsn >= end,
        }
    }

    /// Lets the durable LSN follow to what a quiet stamp made safe; whether it moved to `end`.
    pub(crate) fn catch_up(&mut self, end: Lsn) -> Option<JobOutcome> {
        if self.marks.safe < end || self.marks.durable >= end {
            return None;
        }
        let mut outcome = JobOutcome::default();
        self.advance(self.marks.safe, &mut outcome);
        Some(outcome)
    }

    /// The job under way that will bring `end` that far.
    pub(crate) fn covering_job(&self, level: SyncLevel, end: Lsn) -> Option<u32> {
        let write = self.in_flight.iter().find(|f| {
            f.end >= end
                && match (level, f.kind) {
                    (SyncLevel::Write, _) | (_, WriteKind::Each { .. }) => true,
                    (SyncLevel::Force, WriteKind::Plain { forces }) => forces,
                    _ => false,
                }
        });
        let pending_sync = self
            .pending_sync
            .filter(|f| level != SyncLevel::Write && f.target >= end);
        write
            .map(|f| f.generation)
            .or(pending_sync.map(|f| f.generation))
    }

    /// Seals the batches of a job in LSN order, and takes note of it.
    pub(crate) fn launch(
        &mut self,
        kind: WriteKind,
        quiet: bool,
        batches: &mut [BatchBuilder],
    ) -> JobNumbers {
        for batch in &mut *batches {
            self.seal(batch);
        }
        self.leader.running += 1;
        if !planted!("claim-kept") {
            self.leader.is_awaited = false;
        }
        if planted!("ack-before-landing") {
            self.marks.durable = self.sealed();
        }
        let write = (!batches.is_empty()).then(|| {
            let mut segments: Vec<Arc<Segment>> = Vec::new();
            for batch in &*batches {
                add(&mut segments, &batch.segment);
            }
            self.next_generation(|pipeline, generation| {
                pipeline.in_flight.push_back(InFlightWrite {
                    generation,
                    kind,
                    end: pipeline.sealed(),
                    batches: batches.len(),
                    segments,
                    after: pipeline.marks.sealed,
                    quiet,
                    done: false,
                });
            })
        });
        let sync = matches!(kind, WriteKind::Barrier(_)).then(|| {
            self.next_generation(|pipeline, generation| {
                pipeline.pending_sync = Some(PendingSync {
                    generation,
                    target: pipeline.sealed(),
                    covered: pipeline.sealed(),
                    after: pipeline.marks.sealed,
                });
            })
        });
        JobNumbers { write, sync, quiet }
    }

    fn next_generation(&mut self, note: impl FnOnce(&mut Self, u32)) -> u32 {
        let generation = self.leader.generation;
        note(self, generation);
        self.leader.generation = generation.wrapping_add(1);
        generation
    }

    fn seal(&mut self, batch: &mut BatchBuilder) {
        let mut header = BatchHeader {
            log_id: self.identity.log_id,
            lsn: batch.lsn,
            epoch: self.identity.epoch,
            kind: batch.kind,
            stamp: self.marks.stamp,
            void_from: batch.void_from,
            last_void: self.marks.sealed.anchor.last_void,
            prev_crc: self.marks.sealed.anchor.prev_crc,
            payload_len: batch.payload as u32,
            payload_crc: batch.payload_crc,
            frames: batch.frames,
            prev_epoch: Epoch::default(),
            crc: 0,
        };
        let extent = batch.extent();
        let crc = seal(&mut batch.buf[..extent], &mut header);
        let anchor = &mut self.marks.sealed.anchor;
        anchor.prev_crc = crc;
        anchor.epoch = self.identity.epoch;
        if header.voids() {
            if !planted!("void-not-listed") {
                anchor.last_void = header.lsn;
            }
            self.voids.push((header.void_from, header.lsn));
        }
        anchor.lsn = batch.end();
        self.marks.sealed.open = batch.open_from.is_some();
    }

    /// The writes of the job `generation` are done.
    pub(crate) fn write_done(&mut self, generation: u32) -> JobOutcome {
        let mut outcome = JobOutcome::default();
        let write = self
            .in_flight
            .iter_mut()
            .find(|f| f.generation == generation);
        if let Some(write) = write {
            write.done = true;
        }
        // Only the contiguous prefix counts: a crash would cut at the hole.
        let hole = planted!("hole-under-watermark") && self.in_flight.iter().any(|f| f.done);
        while self.in_flight.front().is_some_and(|f| f.done || hole)
            && let Some(write) = self.in_flight.pop_front()
        {
            self.marks.written = write.after;
            self.stamps.batches += write.batches;
            outcome.generations.push(write.generation);
            match write.kind {
                WriteKind::Each { .. } => {
                    self.marks.safe = write.end;
                    self.advance_anchor(write.after);
                    if self.guarantee == Guarantee::PowerLoss {
                        self.marks.stamp = write.end;
                    }
                    for segment in write.segments {
                        if segment.header.end() <= write.end {
                            outcome.finished.push(segment);
                        }
                    }
                    if !write.quiet || self.requests.force > self.marks.durable {
                        self.advance(write.end, &mut outcome);
                    }
                }
                WriteKind::Plain { forces } => {
                    for segment in &write.segments {
                        add(&mut self.unforced, segment);
                    }
                    if planted!("stamp-of-a-weak-method") {
                        self.marks.stamp = write.end;
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

    /// The segments that the barrier under way must cover. Whatever is written from now on is the
    /// next one's.
    pub(crate) fn begin_sync(&mut self) -> Vec<Arc<Segment>> {
        let written = self.written();
        if let Some(pending_sync) = &mut self.pending_sync {
            pending_sync.covered = written;
        }
        std::mem::take(&mut self.unforced)
    }

    /// The barrier under way is done, on all of `segments`.
    pub(crate) fn end_sync(&mut self, segments: Vec<Arc<Segment>>, quiet: bool) -> JobOutcome {
        let mut outcome = JobOutcome::default();
        let Some(mut pending_sync) = self.pending_sync.take() else {
            return outcome;
        };
        if planted!("barrier-covers-what-came-later") {
            pending_sync.target = self.written();
            pending_sync.after = self.marks.written;
        }
        outcome.generations.push(pending_sync.generation);
        self.marks.safe = pending_sync.target;
        self.advance_anchor(pending_sync.after);
        if self.guarantee == Guarantee::PowerLoss || self.barrier_is_durable {
            self.marks.stamp = pending_sync.target;
        }
        for segment in segments {
            if segment.header.end() <= pending_sync.covered.max(pending_sync.target) {
                outcome.finished.push(segment);
            }
        }
        if !quiet || self.requests.force > self.marks.durable {
            self.advance(pending_sync.target, &mut outcome);
        }
        outcome
    }

    fn advance_anchor(&mut self, mark: BatchBoundary) {
        if !mark.open {
            self.anchor = mark.anchor;
        }
    }

    fn advance(&mut self, to: Lsn, outcome: &mut JobOutcome) {
        // A barrier asked for under a weak method comes after the fact.
        if to > self.marks.durable {
            self.marks.durable = to;
            outcome.durable = Some(to);
        }
        self.stamps.forces += 1;
        if self.stamps.batches > 1 && self.guarantee == Guarantee::PowerLoss {
            // The last batch's own stamp lies below the first of them.
            self.stamps.is_due = true;
        }
        self.stamps.batches = 0;
    }

    /// Takes out the void ranges whose batch is durable.
    pub(crate) fn take_durable_voids(&mut self) -> Vec<(Lsn, Lsn)> {
        if self.voids.is_empty() {
            return Vec::new();
        }
        let durable = self.marks.durable;
        let (out, rest) = std::mem::take(&mut self.voids)
            .into_iter()
            .partition(|&(_, batch)| batch < durable);
        self.voids = rest;
        out
    }

    /// Whether the last force has not been written down as a stamp.
    pub(crate) fn lacks_stamp(&self) -> bool {
        self.guarantee == Guarantee::PowerLoss && self.stamps.forces != self.stamps.stamped
    }
}

/// The numbers of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobNumbers {
    pub(crate) write: Option<u32>,
    pub(crate) sync: Option<u32>,
    pub(crate) quiet: bool,
}

/// How many segments may hold something that no barrier has covered: they stay open for it.
const UNFORCED_AT_MOST: usize = 4;

fn add(segments: &mut Vec<Arc<Segment>>, segment: &Arc<Segment>) {
    if !segments.iter().any(|s| Arc::ptr_eq(s, segment)) {
        segments.push(segment.clone());
    }
}
