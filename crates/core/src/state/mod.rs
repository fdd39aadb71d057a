//! State under the log's only mutex. This module only changes memory. It never calls the device or waits.
//!
//! `log_buffer` stages records. `segment_queue` has the space for them. `pipeline` tracks the batches that
//! are in flight, written and durable. `schedule` decides which batches are written next.

use crate::error::{Error, Result};
use crate::storage::zero_fill::{FillRate, Workload};
use batch::BatchBuilder;
use completions::Completions;
use deadlines::Deadlines;
use log_buffer::LogBuffer;
use logforce_format::frame::{FRAME_HEADER_LEN, frame_len};
use logforce_format::{BatchKind, Lsn};
use pipeline::{Durability, WritePipeline};
use segment_queue::SegmentQueue;
pub(crate) mod batch;
pub(crate) mod buffers;
pub(crate) mod completions;
pub(crate) mod deadlines;
pub(crate) mod log_buffer;
pub(crate) mod pipeline;
pub(crate) mod schedule;
pub(crate) mod segment_queue;

/// State under the log's mutex.
pub(crate) struct State {
    /// Staged batches.
    pub(crate) buffer: LogBuffer,
    /// Prepared space.
    pub(crate) segments: SegmentQueue,
    /// Space that permits have reserved.
    pub(crate) reservations: Reservations,
    /// Batches that jobs have taken: in flight, written, durable.
    pub(crate) pipeline: WritePipeline,
    /// Mechanism that makes a write durable with this method.
    pub(crate) durability: Durability,
    pub(crate) deadlines: Deadlines,
    pub(crate) completions: Completions,
    pub(crate) lifecycle: Lifecycle,
    /// Use of the log, since it was opened, at the time when the last segment was prepared.
    load_before: Workload,
    /// Speed at which new segments are filled with zeroes.
    pub(crate) fill_rate: FillRate,
}

/// Returns the size, in bytes, of an atomic append's records with their frame headers. Fails if it exceeds
/// `max` by more than one frame header.
pub(crate) fn frames_len(lens: impl Iterator<Item = usize>, max: usize) -> Result<usize> {
    let mut sum = 0u64;
    for len in lens {
        sum = sum.saturating_add(frame_len(len) as u64);
    }
    let max = (max + FRAME_HEADER_LEN) as u64;
    if sum > max {
        return Err(Error::TooLarge { len: sum, max });
    }
    Ok(sum as usize)
}

impl State {
    pub(crate) fn new(
        buffer: LogBuffer,
        segments: SegmentQueue,
        pipeline: WritePipeline,
        durability: Durability,
    ) -> Self {
        let mut state = State {
            buffer,
            segments,
            reservations: Reservations::default(),
            pipeline,
            durability,
            deadlines: Deadlines::new(),
            completions: Completions::default(),
            lifecycle: Lifecycle::default(),
            load_before: Workload::default(),
            fill_rate: FillRate::default(),
        };
        state.load_before = state.load();
        state
    }

    /// Returns the exclusive end of all accepted records.
    pub(crate) fn tail(&self) -> Lsn {
        self.buffer
            .open_position()
            .unwrap_or(self.segments.next_batch())
    }

    /// Returns the use of the log since it was opened.
    pub(crate) fn load(&self) -> Workload {
        Workload {
            bytes: self.tail().0,
            ..self.pipeline.load()
        }
    }

    /// Notes that a segment is prepared now. Returns the use of the log since it was opened, and since the
    /// last segment was prepared.
    pub(crate) fn begin_preparing(&mut self) -> (Workload, Workload) {
        let load = self.load();
        (
            load,
            load.since(std::mem::replace(&mut self.load_before, load)),
        )
    }

    /// Returns the number of used bytes, and the size, of the current segment.
    pub(crate) fn used_of_segment(&self) -> (u64, u64) {
        self.segments.used_of_current(self.tail())
    }

    /// Returns an upper bound for the end of an append with `bytes` of frames and of all appends to which
    /// space is promised, in any order.
    pub(crate) fn worst_case_end(&self, bytes: usize, smallest_segment: u64) -> Lsn {
        let appends = 1 + self.reservations.appends();
        let bytes = bytes.saturating_add(self.reservations.bytes());
        let full_batch = self.buffer.smallest_full_batch();
        self.segments
            .worst_case_end(self.tail(), appends, bytes, full_batch, smallest_segment)
    }

    /// Returns true if the log buffer has space for an append of `bytes` in addition to the promised space.
    /// Otherwise the append must be woken when a promise is taken back.
    pub(crate) fn has_buffer_space(&mut self, bytes: usize) -> bool {
        let has = self.buffer.has_space(bytes, self.reservations.bytes());
        self.reservations.kept_one_waiting |= !has && !self.reservations.is_empty();
        has
    }

    /// Stages the records of one atomic append. There must be buffer and prepared space for it.
    /// Calls `each` with the start and the end of every record.
    pub(crate) fn stage(&mut self, records: &[&[&[u8]]], each: impl FnMut(Lsn, Lsn)) {
        self.buffer.stage(&mut self.segments, records, each);
    }

    /// Returns true if the preallocator must be woken, to raise the write limit, or to prepare the next
    /// segment.
    pub(crate) fn wants_preallocator(&mut self) -> bool {
        let tail = self.tail();
        self.segments.wants_write_limit(tail) | self.segments.wants_next(tail)
    }

    /// Returns true if there is prepared space for a batch without records.
    pub(crate) fn has_space_for_empty_batch(&self) -> bool {
        let end = self.buffer.open_end();
        self.segments
            .has_space_at(end.unwrap_or(self.segments.next_batch()))
    }

    /// Returns true if a batch without records leaves enough space for all permits. Only truncations write an
    /// unlimited number of such batches.
    pub(crate) fn keeps_promises_beside_a_batch(&self, smallest_segment: u64) -> bool {
        self.reservations.is_empty()
            || self.worst_case_end(0, smallest_segment) <= self.segments.writable_end()
    }

    /// Stages a batch without records, and returns its end.
    pub(crate) fn place_empty_batch(&mut self, kind: BatchKind, void_from: Option<Lsn>) -> Lsn {
        self.buffer
            .place_empty_batch(&mut self.segments, kind, void_from)
    }

    /// Takes all staged batches, including the open one.
    fn take_all(&mut self) -> Vec<BatchBuilder> {
        self.buffer.take_all(&mut self.segments)
    }

    /// Returns true if a callback is due.
    pub(crate) fn has_callback(&self) -> bool {
        self.completions.has_due(&self.pipeline)
    }
}

/// Progress of a close.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// True if a close has begun: the log accepts no more records.
    pub(crate) closing: bool,
    /// Result of the first close, which all later ones return.
    pub(crate) closed: Option<Result<()>>,
    /// Number of truncations and metadata changes in progress. A close waits for them.
    pub(crate) file_changes: u32,
    /// True if the log's threads may end.
    pub(crate) stopping: bool,
}

/// Total space of all permits of [`Log::reserve`](crate::Log::reserve).
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    appends: u64,
    /// Size of their frames in bytes.
    bytes: usize,
    /// True if an append waits because permits have reserved space. It must be woken when a permit returns
    /// its space.
    pub(super) kept_one_waiting: bool,
}

impl Reservations {
    /// Returns the number of appends to which space is promised.
    pub(super) fn appends(&self) -> u64 {
        self.appends
    }

    /// Returns the number of promised bytes of frames.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.appends == 0
    }

    /// Promises space for one append.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.appends += 1;
        self.bytes += bytes;
    }

    /// Takes a promise back. Returns true if appends wait that may have space now.
    pub(crate) fn release(&mut self, bytes: usize) -> bool {
        self.appends -= 1;
        self.bytes -= bytes;
        std::mem::take(&mut self.kept_one_waiting)
    }
}
