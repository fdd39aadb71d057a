//! Log buffer: records become frames, frames fill batches, and full batches wait to be written. This module
//! only changes memory. It never calls the device.

use crate::state::batch::BatchBuilder;
use crate::state::buffers::Buffers;
use crate::state::segment_queue::SegmentQueue;
use logforce_device::AlignedBuf;
use logforce_format::frame::{FRAME_ALIGN, FRAME_HEADER_LEN, FrameHeader, frame_len};
use logforce_format::{BATCH_HEADER_LEN, BatchKind, Lsn, payload_crc};
use std::collections::VecDeque;

/// Bytes after which an append begins a new batch, if the batches before end within appends. A scan, and a
/// part of the log that a replica reads, can begin only at a batch that no append enters: without a limit, a
/// bulk load would have none.
const MAX_WITHOUT_BOUNDARY: u64 = 4 << 20;

/// Staged batches: accepted, but not taken by a job yet.
pub(crate) struct LogBuffer {
    open: Option<BatchBuilder>,
    full: VecDeque<BatchBuilder>,
    /// Bytes in `full`.
    waiting: usize,
    buffers: Buffers,
    /// Maximum extent of a batch, bytes.
    max_batch: usize,
    /// Maximum number of staged bytes.
    limit: usize,
    /// End of the last batch beyond which no append continues; `None` before the first batch.
    boundary: Option<Lsn>,
}

impl LogBuffer {
    /// Creates a buffer for `limit` bytes in batches of at most `max_batch` bytes.
    pub(crate) fn new(max_batch: usize, limit: usize, buffers: Buffers) -> Self {
        LogBuffer {
            open: None,
            full: VecDeque::new(),
            waiting: 0,
            buffers,
            max_batch,
            limit,
            boundary: None,
        }
    }

    /// Returns the smallest extent of a full batch in bytes, except at a segment's end.
    pub(super) fn smallest_full_batch(&self) -> usize {
        self.buffers.smallest_full()
    }

    /// Returns the LSN at which the next record begins, if a batch is open.
    pub(super) fn open_position(&self) -> Option<Lsn> {
        self.open.as_ref().map(BatchBuilder::position)
    }

    /// Returns the LSN at which the open batch would end if it were closed now.
    pub(super) fn open_end(&self) -> Option<Lsn> {
        self.open.as_ref().map(BatchBuilder::end)
    }

    /// Returns true if full batches wait to be written.
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Returns the number of full batches that wait to be written.
    pub(crate) fn full_batches(&self) -> usize {
        self.full.len()
    }

    /// Returns true if at least one batch is staged.
    pub(crate) fn has_staged(&self) -> bool {
        self.open.is_some() || !self.full.is_empty()
    }

    /// Returns the number of staged batches.
    pub(crate) fn staged_batches(&self) -> usize {
        self.full.len() + usize::from(self.open.is_some())
    }

    /// Returns the number of staged bytes.
    pub(crate) fn staged(&self) -> usize {
        self.waiting + self.open.as_ref().map_or(0, |b| b.payload)
    }

    /// Returns true if `bytes` more may be staged, in addition to `promised` bytes that are still to come.
    /// While no full batch waits and no bytes are promised, one append may exceed the limit. Otherwise an
    /// append larger than the buffer could never be staged.
    pub(super) fn has_space(&self, bytes: usize, promised: usize) -> bool {
        let fits = self.staged() + promised + bytes <= self.limit;
        match self.full.is_empty() {
            true => promised == 0 || fits,
            // The full batch gives its memory back once it is written.
            false => fits && !self.buffers.is_exhausted(),
        }
    }

    /// Stages the records of one atomic append. There must be buffer and prepared space for it.
    /// Calls `each` with the start and the end of every record.
    pub(super) fn stage(
        &mut self,
        segments: &mut SegmentQueue,
        records: &[&[&[u8]]],
        mut each: impl FnMut(Lsn, Lsn),
    ) {
        if let (Some(open), Some(boundary)) = (&self.open, self.boundary)
            && open.position().since(boundary) >= MAX_WITHOUT_BOUNDARY
        {
            self.close_open(segments, None);
        }
        let mut group = None;
        for (i, parts) in records.iter().enumerate() {
            let joined = i + 1 < records.len();
            let (start, end) = self.place_record(segments, parts, joined, i > 0, &mut group);
            each(start, end);
        }
    }

    fn place_record(
        &mut self,
        segments: &mut SegmentQueue,
        parts: &[&[u8]],
        joined: bool,
        follows: bool,
        group: &mut Option<Lsn>,
    ) -> (Lsn, Lsn) {
        let mut rest: usize = parts.iter().map(|p| p.len()).sum();
        let mut source = SliceCursor { parts, at: 0 };
        let mut start = None;
        loop {
            let wanted = FRAME_HEADER_LEN + rest.next_multiple_of(FRAME_ALIGN);
            let open = self.open_batch(segments, wanted);
            let room = open.room();
            // A frame needs its header and, unless the record is empty, `FRAME_ALIGN` bytes for data.
            if room < FRAME_HEADER_LEN + rest.min(1).next_multiple_of(FRAME_ALIGN) {
                self.close_open(segments, *group);
                continue;
            }
            let lsn = open.position();
            let from = *start.get_or_insert(lsn);
            group.get_or_insert(from);
            let take = rest.min(room - FRAME_HEADER_LEN);
            rest -= take;
            let header = FrameHeader {
                len: take as u32,
                first: lsn == from,
                last: rest == 0,
                joined,
                follows,
            };
            let at = BATCH_HEADER_LEN + open.payload;
            open.buf[at..at + FRAME_HEADER_LEN].copy_from_slice(&header.encode());
            let data = at + FRAME_HEADER_LEN;
            source.copy(&mut open.buf[data..data + take]);
            let end = at + frame_len(take);
            open.buf[data + take..end].fill(0);
            open.payload = end - BATCH_HEADER_LEN;
            open.payload_crc = payload_crc(open.payload_crc, &open.buf[at..end]);
            open.frames += 1;
            if rest == 0 {
                open.records += 1;
                return (from, open.position());
            }
        }
    }

    /// Returns the open batch; opens one if there is none. Grows its buffer for `wanted` bytes of frames, as
    /// far as the batch's capacity and the memory permit. There must be prepared space.
    fn open_batch(&mut self, segments: &mut SegmentQueue, wanted: usize) -> &mut BatchBuilder {
        let batch = match self.open.take() {
            Some(batch) => batch,
            None => self.begin(segments, BatchKind::Data, None),
        };
        let batch = self.open.insert(batch);
        let used = BATCH_HEADER_LEN + batch.payload;
        let needed = used.saturating_add(wanted).min(batch.capacity);
        if needed > batch.buf.len() && !self.buffers.grow(&mut batch.buf, used, needed) {
            batch.capacity = batch.buf.len();
        }
        batch
    }

    fn begin(
        &mut self,
        segments: &mut SegmentQueue,
        kind: BatchKind,
        void_from: Option<Lsn>,
    ) -> BatchBuilder {
        let (segment, lsn, left) = segments.for_next_batch();
        self.boundary.get_or_insert(lsn);
        let segment = segment.clone();
        BatchBuilder {
            buf: self.buffers.take(),
            segment,
            lsn,
            capacity: self.max_batch.min(left),
            payload: 0,
            payload_crc: 0,
            frames: 0,
            records: 0,
            kind,
            void_from: void_from.unwrap_or(lsn),
            open_from: None,
        }
    }

    fn close_open(&mut self, segments: &mut SegmentQueue, group: Option<Lsn>) {
        if let Some(mut batch) = self.open.take() {
            // An append that begins exactly at this batch's end is not part of it.
            batch.open_from = group;
            self.push(segments, batch);
        }
    }

    fn push(&mut self, segments: &mut SegmentQueue, batch: BatchBuilder) {
        segments.batch_ended(batch.end());
        if batch.open_from.is_none() {
            self.boundary = Some(batch.end());
        }
        self.waiting += batch.extent();
        self.full.push_back(batch);
    }

    /// Stages a batch without records, and returns its end.
    pub(super) fn place_empty_batch(
        &mut self,
        segments: &mut SegmentQueue,
        kind: BatchKind,
        void_from: Option<Lsn>,
    ) -> Lsn {
        self.close_open(segments, None);
        let batch = self.begin(segments, kind, void_from);
        let end = batch.end();
        self.push(segments, batch);
        end
    }

    /// Takes all staged batches, including the open one.
    pub(super) fn take_all(&mut self, segments: &mut SegmentQueue) -> Vec<BatchBuilder> {
        self.close_open(segments, None);
        self.waiting = 0;
        self.full.drain(..).collect()
    }

    /// Takes the oldest full batch. Taking only one keeps the number of used buffers small, so that they stay
    /// in the processor's cache, and an append that waits for buffer space continues after one write.
    pub(super) fn take_full(&mut self) -> Option<BatchBuilder> {
        let batch = self.full.pop_front()?;
        self.waiting -= batch.extent();
        Some(batch)
    }

    /// Takes back buffers of batches that were written.
    pub(crate) fn recycle(&mut self, bufs: Vec<AlignedBuf>) {
        self.buffers.recycle(bufs);
    }

    /// Drops the buffers that no batch uses, because the log is idle.
    pub(crate) fn shrink(&mut self) {
        self.buffers.shrink();
    }

    /// Drops all staged batches, because the log has failed and will not write them.
    pub(crate) fn discard(&mut self) {
        self.open = None;
        self.full.clear();
        self.waiting = 0;
    }
}

/// A cursor over a record that lies in several slices.
struct SliceCursor<'a> {
    parts: &'a [&'a [u8]],
    at: usize,
}

impl SliceCursor<'_> {
    fn copy(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            let Some(part) = self.parts.first() else {
                return;
            };
            let left = &part[self.at..];
            let n = left.len().min(to.len());
            let (head, tail) = to.split_at_mut(n);
            head.copy_from_slice(&left[..n]);
            to = tail;
            self.at += n;
            if self.at == part.len() {
                self.parts = &self.parts[1..];
                self.at = 0;
            }
        }
    }
}
