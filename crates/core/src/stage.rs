//! Where records wait for the device: reserving LSNs, filling batches. Pure memory, no device
//! calls; everything here happens under the log's one mutex.

use crate::commit::{Durability, Flying, Line};
use crate::policy::Owed;
use crate::segments::Segment;
use crate::submit::Callback;
use crate::{Error, Result};
use logforce_device::AlignedBuf;
use logforce_format::frame::{FRAME_ALIGN, FRAME_HEADER_LEN, FrameHeader, frame_len};
use logforce_format::{BATCH_HEADER_LEN, BatchKind, Lsn, MAX_RECORD_LEN, align_up, payload_crc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Write units at the end of the prepared segments that no record may take, so that a log on a full
/// disk can still be closed, opened again and truncated.
pub(crate) const KEPT_UNITS: u64 = 16;

/// A batch being filled, or waiting to be written.
pub(crate) struct Building {
    pub(crate) buf: AlignedBuf,
    pub(crate) segment: Arc<Segment>,
    pub(crate) lsn: Lsn,
    /// Longest it may become, bytes.
    capacity: usize,
    pub(crate) payload: usize,
    /// Checksum of the payload so far.
    pub(crate) payload_crc: u32,
    pub(crate) frames: u32,
    /// Records that end in it.
    pub(crate) records: u32,
    pub(crate) kind: BatchKind,
    pub(crate) void_from: Lsn,
    /// Start of the append that is begun and not ended at this batch's end.
    pub(crate) open_from: Option<Lsn>,
}

impl Building {
    pub(crate) fn extent(&self) -> usize {
        let unit = u64::from(self.segment.header.write_unit);
        align_up((BATCH_HEADER_LEN + self.payload) as u64, unit) as usize
    }

    pub(crate) fn end(&self) -> Lsn {
        self.lsn.plus(self.extent() as u64)
    }

    fn position(&self) -> Lsn {
        self.lsn.plus((BATCH_HEADER_LEN + self.payload) as u64)
    }

    fn room(&self) -> usize {
        self.capacity - BATCH_HEADER_LEN - self.payload
    }
}

/// A failed attempt to prepare a segment.
#[derive(Clone)]
pub(crate) struct PrepareFailure {
    pub(crate) round: u64,
    pub(crate) error: Error,
}

/// The state under the log's mutex.
pub(crate) struct Stage {
    open: Option<Building>,
    full: VecDeque<Building>,
    /// Where the next batch begins when none is open; may be the end of `segment`.
    at: Lsn,
    segment: Arc<Segment>,
    pub(crate) upcoming: VecDeque<Arc<Segment>>,
    /// Bytes in `full`.
    waiting: usize,
    pool: Vec<AlignedBuf>,
    max_batch: usize,
    limit: usize,
    pub(crate) durability: Durability,
    pub(crate) flying: Flying,
    /// What became of what was staged.
    pub(crate) line: Line,
    /// Appends want the prepared segments to reach this far.
    pub(crate) wanted_end: Lsn,
    pub(crate) prepare_round: u64,
    pub(crate) prepare_failure: Option<PrepareFailure>,
    /// The log is at its cap, and its callback at work: what to answer those who cannot wait for it.
    pub(crate) at_cap: Option<Error>,
    /// How often the front has given space back.
    pub(crate) freed: u64,
    pub(crate) closing: bool,
    /// What the first close answered, for the others.
    pub(crate) closed: Option<Result<()>>,
    /// Truncations under way.
    pub(crate) truncating: u32,
    /// Threads may end.
    pub(crate) stopping: bool,
    /// The force that commits which did not wait for one are owed.
    pub(crate) owed: Option<Owed>,
    /// How long a force usually takes, after the first.
    pub(crate) usual_force: Option<Duration>,
    /// When the writing thread will look again by itself; zero while it is at work.
    pub(crate) service_wakes: Duration,
    /// In the order of their records.
    pub(crate) callbacks: VecDeque<Callback>,
    /// When the oldest submission was accepted that no job was handed, by the log's clock.
    pub(crate) oldest_submission: Option<Duration>,
}

impl Stage {
    pub(crate) fn new(
        segment: Arc<Segment>,
        upcoming: VecDeque<Arc<Segment>>,
        max_batch: u32,
        limit: usize,
        durability: Durability,
        flying: Flying,
        line: Line,
    ) -> Self {
        Stage {
            open: None,
            full: VecDeque::new(),
            at: line.sealed(),
            segment,
            upcoming,
            waiting: 0,
            pool: Vec::new(),
            max_batch: max_batch as usize,
            limit,
            durability,
            flying,
            line,
            wanted_end: Lsn::ORIGIN,
            prepare_round: 0,
            prepare_failure: None,
            at_cap: None,
            freed: 0,
            closing: false,
            closed: None,
            truncating: 0,
            stopping: false,
            owed: None,
            usual_force: None,
            service_wakes: Duration::ZERO,
            callbacks: VecDeque::new(),
            oldest_submission: None,
        }
    }

    /// Exclusive end of everything accepted.
    pub(crate) fn tail(&self) -> Lsn {
        self.open.as_ref().map_or(self.at, Building::position)
    }

    /// Exclusive end of the prepared segments.
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.upcoming.back().unwrap_or(&self.segment).header.end()
    }

    /// How many bytes of how many are used up in the segment that is being filled.
    pub(crate) fn used_of_segment(&self) -> (u64, u64) {
        let header = &self.segment.header;
        (self.tail().since(header.start).min(header.len), header.len)
    }

    /// Batches that are full and wait to be written.
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// How many batches are full and wait to be written.
    pub(crate) fn full_batches(&self) -> usize {
        self.full.len()
    }

    /// Something waits to be written.
    pub(crate) fn has_staged(&self) -> bool {
        self.open.is_some() || !self.full.is_empty()
    }

    /// How many batches wait to be written.
    pub(crate) fn staged_batches(&self) -> usize {
        self.full.len() + usize::from(self.open.is_some())
    }

    /// Bytes accepted and not written.
    pub(crate) fn staged(&self) -> usize {
        self.waiting + self.open.as_ref().map_or(0, |b| b.payload)
    }

    /// Whether `bytes` more may be staged. One append beyond the limit is taken when nothing waits,
    /// else it never could be.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.full.is_empty() || self.staged() + bytes <= self.limit
    }

    /// Checks the size of an atomic append and returns the bytes that its frames take.
    pub(crate) fn measure(lens: impl Iterator<Item = usize>) -> Result<usize> {
        let mut sum = 0u64;
        for len in lens {
            sum = sum.saturating_add(frame_len(len) as u64);
        }
        let max = (MAX_RECORD_LEN + FRAME_HEADER_LEN) as u64;
        if sum > max {
            return Err(Error::TooLarge { len: sum, max });
        }
        Ok(sum as usize)
    }

    /// An upper bound of where `bytes` of frames would end.
    pub(crate) fn bound(&self, bytes: usize, smallest_segment: u64) -> Lsn {
        // What an earlier opening prepared may have been made with other options.
        let prepared = std::iter::once(&self.segment).chain(&self.upcoming);
        let (unit, smallest_segment) =
            prepared.fold((0, smallest_segment), |(unit, smallest), s| {
                (
                    unit.max(u64::from(s.header.write_unit)),
                    smallest.min(s.header.len),
                )
            });
        // The least payload of a batch that is closed for lack of room, but for the one at a
        // segment's end.
        let least = (self.max_batch.min(smallest_segment as usize / 2)
            - BATCH_HEADER_LEN
            - 2 * FRAME_ALIGN) as u64;
        let batches = bytes as u64 / least + 2;
        let per_batch = (BATCH_HEADER_LEN + 2 * FRAME_HEADER_LEN) as u64 + unit;
        let sum = bytes as u64 + batches * per_batch;
        let crossings = sum / (smallest_segment / 2) + 1;
        let sum = sum
            + crossings * (per_batch + logforce_format::SegmentHeader::data_offset(unit as u32));
        self.tail().plus(sum + KEPT_UNITS * unit)
    }

    /// Stages the records of one atomic append, which must have room. Calls `each` with the start
    /// and the end of every record.
    pub(crate) fn place(&mut self, records: &[&[&[u8]]], mut each: impl FnMut(Lsn, Lsn)) {
        let mut group = None;
        for (i, parts) in records.iter().enumerate() {
            let joined = i + 1 < records.len();
            let (start, end) = self.place_record(parts, joined, i > 0, &mut group);
            each(start, end);
        }
    }

    fn place_record(
        &mut self,
        parts: &[&[u8]],
        joined: bool,
        follows: bool,
        group: &mut Option<Lsn>,
    ) -> (Lsn, Lsn) {
        let mut rest: usize = parts.iter().map(|p| p.len()).sum();
        let mut source = Parts { parts, at: 0 };
        let mut start = None;
        loop {
            let open = self.open_batch();
            let room = open.room();
            // A frame needs its header and, unless it ends the record, at least one unit of data.
            if room < FRAME_HEADER_LEN + rest.min(1).next_multiple_of(FRAME_ALIGN) {
                self.close_open(*group);
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

    /// The open batch, begun if there is none. There must be prepared space.
    fn open_batch(&mut self) -> &mut Building {
        if self.open.is_none() {
            let batch = self.begin(BatchKind::Data, None);
            self.open = Some(batch);
        }
        self.open
            .as_mut()
            .unwrap_or_else(|| unreachable!("just begun"))
    }

    fn begin(&mut self, kind: BatchKind, void_from: Option<Lsn>) -> Building {
        if self.at >= self.segment.header.end()
            && let Some(next) = self.upcoming.pop_front()
        {
            self.segment = next;
            self.at = self.segment.header.first_batch();
        }
        let left = self.segment.header.end().since(self.at) as usize;
        debug_assert!(left > 0, "appends wait for prepared space");
        let buf = self
            .pool
            .pop()
            .unwrap_or_else(|| AlignedBuf::zeroed(self.max_batch, 65536));
        Building {
            buf,
            segment: self.segment.clone(),
            lsn: self.at,
            capacity: self.max_batch.min(left),
            payload: 0,
            payload_crc: 0,
            frames: 0,
            records: 0,
            kind,
            void_from: void_from.unwrap_or(self.at),
            open_from: None,
        }
    }

    fn close_open(&mut self, group: Option<Lsn>) {
        if let Some(mut batch) = self.open.take() {
            // A group that begins exactly at this batch's end is not begun in it.
            batch.open_from = group;
            self.push(batch);
        }
    }

    fn push(&mut self, batch: Building) {
        self.at = batch.end();
        self.waiting += batch.extent();
        self.full.push_back(batch);
    }

    /// Whether a batch without records can be placed.
    pub(crate) fn has_space_for_mark(&self) -> bool {
        let end = self.open.as_ref().map_or(self.at, Building::end);
        end < self.segment.header.end() || !self.upcoming.is_empty()
    }

    /// Stages a batch that carries no records; returns its end.
    pub(crate) fn place_mark(&mut self, kind: BatchKind, void_from: Option<Lsn>) -> Lsn {
        self.close_open(None);
        let batch = self.begin(kind, void_from);
        let end = batch.end();
        self.push(batch);
        end
    }

    /// Takes all that is to be written, the open batch included.
    pub(crate) fn take_all(&mut self) -> Vec<Building> {
        self.close_open(None);
        self.waiting = 0;
        self.full.drain(..).collect()
    }

    /// Takes the oldest full batch. One at a time, so that the memory in use stays little and warm,
    /// and whoever waits for room need not wait for all of it.
    pub(crate) fn take_full(&mut self) -> Option<Building> {
        let batch = self.full.pop_front()?;
        self.waiting -= batch.extent();
        Some(batch)
    }

    /// Gives memory back for the next batches.
    pub(crate) fn recycle(&mut self, bufs: Vec<AlignedBuf>) {
        // What can be staged, and what is being written.
        let keep = self.limit / self.max_batch + self.flying.most;
        for buf in bufs {
            if self.pool.len() < keep {
                self.pool.push(buf);
            }
        }
    }

    /// Drops what will never be written.
    pub(crate) fn discard(&mut self) {
        self.open = None;
        self.full.clear();
        self.waiting = 0;
    }
}

/// Reads a record that lies in several slices.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    at: usize,
}

impl Parts<'_> {
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
