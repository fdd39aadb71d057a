//! What is in the air, and what is written and durable. Pure memory, under the log's one mutex.

use crate::segments::Segment;
use crate::stage::Building;
use logforce_device::{Barrier, ForceBy, Guarantee, Plan};
use logforce_format::{Anchor, BatchHeader, Epoch, LogId, Lsn, planted, seal};
use std::collections::VecDeque;
use std::sync::Arc;

/// How far somebody wants the log to be brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Written, not forced.
    Write,
    /// Forced by the log's method.
    Force,
    /// Behind a full barrier, whatever the method.
    Barrier,
}

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
pub(crate) enum Kind {
    /// The write does it.
    Each { through: bool },
    /// The write does not; whether it counts as a force all the same.
    Plain { forces: bool },
    /// A barrier after the write, on everything that is written and not forced.
    Barrier(Barrier),
}

impl Kind {
    /// Whether what it writes counts as forced when it is done.
    pub(crate) fn forces(self) -> bool {
        self != Kind::Plain { forces: false }
    }

    /// For events.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Each { through: true } => "through",
            Kind::Each { through: false } => "durable",
            Kind::Plain { forces: true } => "weak",
            Kind::Plain { forces: false } => "write",
            Kind::Barrier(_) => "barrier",
        }
    }
}

/// Where the log stands after some batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) anchor: Anchor,
    /// An append is begun and not ended there: no scan may start.
    pub(crate) open: bool,
}

/// One write, or several contiguous ones, under way.
struct Flight {
    generation: u32,
    kind: Kind,
    end: Lsn,
    batches: usize,
    segments: Vec<Arc<Segment>>,
    after: Mark,
    /// Durable when it lands, but nobody asked for that: the durable LSN stays.
    quiet: bool,
    done: bool,
}

/// The barrier under way.
#[derive(Clone, Copy)]
struct Fence {
    generation: u32,
    /// It makes everything below durable.
    target: Lsn,
    /// What was written when it began, which it covers too.
    covered: Lsn,
    after: Mark,
}

/// What a landing changed.
#[derive(Default)]
pub(crate) struct Landed {
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

/// The line of batches from sealing to the medium.
pub(crate) struct Line {
    identity: Identity,
    guarantee: Guarantee,
    barrier_is_durable: bool,
    /// The last sealed batch.
    sealed: Mark,
    flying: VecDeque<Flight>,
    fence: Option<Fence>,
    /// The end of the contiguous prefix that is written.
    written: Mark,
    /// Everything below is durable by a write through or behind a barrier.
    safe: Lsn,
    /// The log's durable LSN. Above `safe` under a weak method; below it after a stamp that took
    /// records along which nobody had asked to force.
    durable: Lsn,
    /// Everything below is durable against loss of power: what the next batch's stamp says.
    stamp: Lsn,
    /// The latest boundary at or below `safe` where no append is begun and not ended.
    pub(crate) anchor: Anchor,
    /// Segments written to since the last barrier. A force must barrier all of them: a write
    /// through makes only itself durable, and a crash would keep it and lose what lies before.
    unforced: Vec<Arc<Segment>>,
    /// Void ranges whose batch is not durable yet.
    voids: Vec<(Lsn, Lsn)>,
    /// Batches written since the durable LSN last moved.
    batches: usize,
    /// How far somebody wants it written, forced, barriered.
    want_write: Lsn,
    want_force: Lsn,
    want_barrier: Lsn,
    /// Number of the next job.
    pub(crate) generation: u32,
    /// The next job has somebody who will look for it when a job ends.
    pub(crate) claimed: bool,
    /// Jobs under way, failed ones excepted.
    pub(crate) running: u32,
    /// How often the durable LSN moved; the last time that a stamp covered.
    pub(crate) forces: u64,
    pub(crate) stamped_forces: u64,
    /// The last force covered more than its own batch.
    pub(crate) stamp_now: bool,
}

impl Line {
    /// A line that continues after `anchor`, with everything below it durable.
    pub(crate) fn new(
        identity: Identity,
        guarantee: Guarantee,
        barrier_is_durable: bool,
        anchor: Anchor,
        stamp: Lsn,
    ) -> Self {
        let mark = Mark {
            anchor,
            open: false,
        };
        Line {
            identity,
            guarantee,
            barrier_is_durable,
            sealed: mark,
            flying: VecDeque::new(),
            fence: None,
            written: mark,
            safe: anchor.lsn,
            durable: anchor.lsn,
            stamp,
            anchor,
            unforced: Vec::new(),
            voids: Vec::new(),
            batches: 0,
            want_write: Lsn::ORIGIN,
            want_force: Lsn::ORIGIN,
            want_barrier: Lsn::ORIGIN,
            generation: 0,
            claimed: false,
            running: 0,
            forces: 0,
            stamped_forces: 0,
            stamp_now: false,
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    pub(crate) fn written(&self) -> Lsn {
        self.written.anchor.lsn
    }

    /// Where a known bug puts the anchor.
    pub(crate) fn written_anchor(&self) -> Anchor {
        self.written.anchor
    }

    /// The end of what was handed to jobs.
    pub(crate) fn sealed(&self) -> Lsn {
        self.sealed.anchor.lsn
    }

    pub(crate) fn flights(&self) -> usize {
        self.flying.len()
    }

    /// Whether a plain write is under way.
    pub(crate) fn writes_plainly(&self) -> bool {
        self.flying
            .iter()
            .any(|f| !matches!(f.kind, Kind::Each { .. }))
    }

    pub(crate) fn has_fence(&self) -> bool {
        self.fence.is_some()
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
    pub(crate) fn want(&mut self, how: How, end: Lsn) {
        let want = match how {
            How::Write => &mut self.want_write,
            How::Force => &mut self.want_force,
            How::Barrier => &mut self.want_barrier,
        };
        *want = (*want).max(end);
    }

    /// Whether somebody wants what is not handed to a job yet to be brought that far.
    pub(crate) fn wants_staged(&self, how: How) -> bool {
        let want = match how {
            How::Write => self.want_write,
            How::Force => self.want_force,
            How::Barrier => self.want_barrier,
        };
        want > self.sealed()
    }

    /// Whether somebody wants a force or a barrier of what is written, or too many segments wait for
    /// one.
    pub(crate) fn wants_fence(&self) -> bool {
        self.want_force > self.durable.max(self.safe)
            || self.want_barrier > self.anchor.lsn
            || self.unforced.len() >= UNFORCED_AT_MOST
    }

    /// Whether `end` has been brought that far.
    pub(crate) fn has_reached(&self, how: How, end: Lsn) -> bool {
        match how {
            How::Write => self.written() >= end || self.durable >= end,
            How::Force => self.durable >= end,
            How::Barrier => self.anchor.lsn >= end,
        }
    }

    /// Lets the durable LSN follow to what a quiet stamp made safe; whether it moved to `end`.
    pub(crate) fn catch_up(&mut self, end: Lsn) -> Option<Landed> {
        if self.safe < end || self.durable >= end {
            return None;
        }
        let mut landed = Landed::default();
        self.advance(self.safe, &mut landed);
        Some(landed)
    }

    /// The job under way that will bring `end` that far.
    pub(crate) fn carrier(&self, how: How, end: Lsn) -> Option<u32> {
        let flight = self.flying.iter().find(|f| {
            f.end >= end
                && match (how, f.kind) {
                    (How::Write, _) | (_, Kind::Each { .. }) => true,
                    (How::Force, Kind::Plain { forces }) => forces,
                    _ => false,
                }
        });
        let fence = self.fence.filter(|f| how != How::Write && f.target >= end);
        flight.map(|f| f.generation).or(fence.map(|f| f.generation))
    }

    /// Seals the batches of a job in LSN order, and takes note of it.
    pub(crate) fn launch(&mut self, kind: Kind, quiet: bool, batches: &mut [Building]) -> Launch {
        for batch in &mut *batches {
            self.seal(batch);
        }
        self.running += 1;
        if !planted!("claim-kept") {
            self.claimed = false;
        }
        if planted!("ack-before-landing") {
            self.durable = self.sealed();
        }
        let write = (!batches.is_empty()).then(|| {
            let mut segments: Vec<Arc<Segment>> = Vec::new();
            for batch in &*batches {
                add(&mut segments, &batch.segment);
            }
            self.next_generation(|line, generation| {
                line.flying.push_back(Flight {
                    generation,
                    kind,
                    end: line.sealed(),
                    batches: batches.len(),
                    segments,
                    after: line.sealed,
                    quiet,
                    done: false,
                });
            })
        });
        let fence = matches!(kind, Kind::Barrier(_)).then(|| {
            self.next_generation(|line, generation| {
                line.fence = Some(Fence {
                    generation,
                    target: line.sealed(),
                    covered: line.sealed(),
                    after: line.sealed,
                });
            })
        });
        Launch {
            write,
            fence,
            quiet,
        }
    }

    fn next_generation(&mut self, note: impl FnOnce(&mut Self, u32)) -> u32 {
        let generation = self.generation;
        note(self, generation);
        self.generation = generation.wrapping_add(1);
        generation
    }

    fn seal(&mut self, batch: &mut Building) {
        let mut header = BatchHeader {
            log_id: self.identity.log_id,
            lsn: batch.lsn,
            epoch: self.identity.epoch,
            kind: batch.kind,
            stamp: self.stamp,
            void_from: batch.void_from,
            last_void: self.sealed.anchor.last_void,
            prev_crc: self.sealed.anchor.prev_crc,
            payload_len: batch.payload as u32,
            payload_crc: batch.payload_crc,
            frames: batch.frames,
            prev_epoch: Epoch::default(),
            crc: 0,
        };
        let extent = batch.extent();
        let crc = seal(&mut batch.buf[..extent], &mut header);
        let anchor = &mut self.sealed.anchor;
        anchor.prev_crc = crc;
        anchor.epoch = self.identity.epoch;
        if header.voids() {
            if !planted!("void-not-listed") {
                anchor.last_void = header.lsn;
            }
            self.voids.push((header.void_from, header.lsn));
        }
        anchor.lsn = batch.end();
        self.sealed.open = batch.open_from.is_some();
    }

    /// The writes of the job `generation` are done.
    pub(crate) fn land(&mut self, generation: u32) -> Landed {
        let mut landed = Landed::default();
        let flight = self.flying.iter_mut().find(|f| f.generation == generation);
        if let Some(flight) = flight {
            flight.done = true;
        }
        // Only the contiguous prefix counts: a crash would cut at the hole.
        let hole = planted!("hole-under-watermark") && self.flying.iter().any(|f| f.done);
        while self.flying.front().is_some_and(|f| f.done || hole)
            && let Some(flight) = self.flying.pop_front()
        {
            self.written = flight.after;
            self.batches += flight.batches;
            landed.generations.push(flight.generation);
            match flight.kind {
                Kind::Each { .. } => {
                    self.safe = flight.end;
                    self.settle_anchor(flight.after);
                    if self.guarantee == Guarantee::PowerLoss {
                        self.stamp = flight.end;
                    }
                    for segment in flight.segments {
                        if segment.header.end() <= flight.end {
                            landed.finished.push(segment);
                        }
                    }
                    if !flight.quiet || self.want_force > self.durable {
                        self.advance(flight.end, &mut landed);
                    }
                }
                Kind::Plain { forces } => {
                    for segment in &flight.segments {
                        add(&mut self.unforced, segment);
                    }
                    if planted!("stamp-of-a-weak-method") {
                        self.stamp = flight.end;
                    }
                    if forces {
                        self.advance(flight.end, &mut landed);
                    }
                }
                Kind::Barrier(_) => {
                    for segment in &flight.segments {
                        add(&mut self.unforced, segment);
                    }
                    if planted!("ack-before-barrier") {
                        self.advance(flight.end, &mut landed);
                    }
                }
            }
        }
        landed
    }

    /// The segments that the barrier under way must cover. Whatever is written from now on is the
    /// next one's.
    pub(crate) fn begin_fence(&mut self) -> Vec<Arc<Segment>> {
        let written = self.written();
        if let Some(fence) = &mut self.fence {
            fence.covered = written;
        }
        std::mem::take(&mut self.unforced)
    }

    /// The barrier under way is done, on all of `segments`.
    pub(crate) fn end_fence(&mut self, segments: Vec<Arc<Segment>>, quiet: bool) -> Landed {
        let mut landed = Landed::default();
        let Some(mut fence) = self.fence.take() else {
            return landed;
        };
        if planted!("barrier-covers-what-came-later") {
            fence.target = self.written();
            fence.after = self.written;
        }
        landed.generations.push(fence.generation);
        self.safe = fence.target;
        self.settle_anchor(fence.after);
        if self.guarantee == Guarantee::PowerLoss || self.barrier_is_durable {
            self.stamp = fence.target;
        }
        for segment in segments {
            if segment.header.end() <= fence.covered.max(fence.target) {
                landed.finished.push(segment);
            }
        }
        if !quiet || self.want_force > self.durable {
            self.advance(fence.target, &mut landed);
        }
        landed
    }

    fn settle_anchor(&mut self, mark: Mark) {
        if !mark.open {
            self.anchor = mark.anchor;
        }
    }

    fn advance(&mut self, to: Lsn, landed: &mut Landed) {
        // A barrier asked for under a weak method comes after the fact.
        if to > self.durable {
            self.durable = to;
            landed.durable = Some(to);
        }
        self.forces += 1;
        if self.batches > 1 && self.guarantee == Guarantee::PowerLoss {
            // The last batch's own stamp lies below the first of them.
            self.stamp_now = true;
        }
        self.batches = 0;
    }

    /// Takes out the void ranges whose batch is durable.
    pub(crate) fn take_durable_voids(&mut self) -> Vec<(Lsn, Lsn)> {
        if self.voids.is_empty() {
            return Vec::new();
        }
        let durable = self.durable;
        let (out, rest) = std::mem::take(&mut self.voids)
            .into_iter()
            .partition(|&(_, batch)| batch < durable);
        self.voids = rest;
        out
    }

    /// Whether the last force has not been written down as a stamp.
    pub(crate) fn lacks_stamp(&self) -> bool {
        self.guarantee == Guarantee::PowerLoss && self.forces != self.stamped_forces
    }
}

/// The numbers of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) write: Option<u32>,
    pub(crate) fence: Option<u32>,
    pub(crate) quiet: bool,
}

/// How many segments may hold something that no barrier has covered: they stay open for it.
const UNFORCED_AT_MOST: usize = 4;

fn add(segments: &mut Vec<Arc<Segment>>, segment: &Arc<Segment>) {
    if !segments.iter().any(|s| Arc::ptr_eq(s, segment)) {
        segments.push(segment.clone());
    }
}
