//! The segment that is being filled, those prepared behind it, and who waits for another.

use crate::error::{Error, Result};
use crate::options::KEPT_UNITS;
use crate::storage::segment::Segment;
use logforce_format::frame::{FRAME_ALIGN, FRAME_HEADER_LEN};
use logforce_format::{BATCH_HEADER_LEN, Lsn, SegmentHeader};
use std::collections::VecDeque;
use std::sync::Arc;

/// A failed attempt to prepare a segment.
#[derive(Clone)]
pub(crate) struct PrepareFailure {
    pub(crate) round: u64,
    pub(crate) error: Error,
}

/// Prepared space: the segment in use, and the upcoming ones.
pub(crate) struct SegmentQueue {
    current: Arc<Segment>,
    upcoming: VecDeque<Arc<Segment>>,
    /// Where the next batch begins when none is open; may be the end of `current`.
    next_batch: Lsn,
    /// Appends want the prepared segments to reach this far.
    wanted_end: Lsn,
    /// How many attempts to prepare a segment have ended.
    round: u64,
    failure: Option<PrepareFailure>,
    /// The log is at its cap, and its callback at work: what to answer those who cannot wait for it.
    pub(crate) at_cap: Option<Error>,
    /// How often the front has given space back.
    freed: u64,
}

impl SegmentQueue {
    pub(crate) fn new(
        current: Arc<Segment>,
        upcoming: VecDeque<Arc<Segment>>,
        next_batch: Lsn,
    ) -> Self {
        SegmentQueue {
            current,
            upcoming,
            next_batch,
            wanted_end: Lsn::ORIGIN,
            round: 0,
            failure: None,
            at_cap: None,
            freed: 0,
        }
    }

    /// Where the next batch begins when none is open.
    pub(super) fn next_batch(&self) -> Lsn {
        self.next_batch
    }

    /// A batch ends at `end`.
    pub(super) fn batch_ended(&mut self, end: Lsn) {
        self.next_batch = end;
    }

    /// The segment for a batch that begins now, and how many bytes are left in it. Takes the next
    /// segment into use where the current one is full: there must be one.
    pub(super) fn for_next_batch(&mut self) -> (&Arc<Segment>, Lsn, usize) {
        if self.next_batch >= self.current.header.end()
            && let Some(next) = self.upcoming.pop_front()
        {
            self.current = next;
            self.next_batch = self.current.header.first_batch();
        }
        let left = self.current.header.end().since(self.next_batch) as usize;
        debug_assert!(left > 0, "appends wait for prepared space");
        (&self.current, self.next_batch, left)
    }

    /// Whether there is space for a batch that begins at `end`.
    pub(super) fn has_space_at(&self, end: Lsn) -> bool {
        end < self.current.header.end() || !self.upcoming.is_empty()
    }

    /// Exclusive end of the prepared segments.
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.upcoming.back().unwrap_or(&self.current).header.end()
    }

    /// How many segments are prepared behind the one in use.
    pub(crate) fn upcoming(&self) -> usize {
        self.upcoming.len()
    }

    /// How many bytes of how many are used up in the segment that is being filled.
    pub(super) fn used_of_current(&self, tail: Lsn) -> (u64, u64) {
        let header = &self.current.header;
        (tail.since(header.start).min(header.len), header.len)
    }

    /// An upper bound of where `bytes` of frames would end that begin at `tail`.
    pub(super) fn worst_case_end(
        &self,
        tail: Lsn,
        bytes: usize,
        max_batch: usize,
        smallest_segment: u64,
    ) -> Lsn {
        // What an earlier opening prepared may have been made with other options.
        let prepared = std::iter::once(&self.current).chain(&self.upcoming);
        let (unit, smallest_segment) =
            prepared.fold((0, smallest_segment), |(unit, smallest), s| {
                (
                    unit.max(u64::from(s.header.write_unit)),
                    smallest.min(s.header.len),
                )
            });
        // The least payload of a batch that is closed for lack of room, but for the one at a
        // segment's end.
        let least = (max_batch.min(smallest_segment as usize / 2)
            - BATCH_HEADER_LEN
            - 2 * FRAME_ALIGN) as u64;
        let batches = bytes as u64 / least + 2;
        let per_batch = (BATCH_HEADER_LEN + 2 * FRAME_HEADER_LEN) as u64 + unit;
        let sum = bytes as u64 + batches * per_batch;
        let crossings = sum / (smallest_segment / 2) + 1;
        let sum = sum + crossings * (per_batch + SegmentHeader::data_offset(unit as u32));
        tail.plus(sum + KEPT_UNITS * unit)
    }

    /// Asks for prepared space up to `end`. `asked` remembers, from one try to the next, since which
    /// round; fails where an attempt made since then has failed.
    pub(crate) fn ask_for(&mut self, end: Lsn, asked: &mut Option<u64>) -> Result<()> {
        if let (Some(failure), Some(round)) = (&self.failure, *asked)
            && failure.round > round
        {
            return Err(failure.error.clone());
        }
        asked.get_or_insert(self.round);
        self.wanted_end = self.wanted_end.max(end);
        Ok(())
    }

    /// Asks for one more segment than there is, whatever became of the last attempt.
    pub(crate) fn ask_again(&mut self) {
        self.wanted_end = self.wanted_end.max(self.prepared_end().plus(1));
    }

    /// Whether an append waits for another segment.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.wanted_end > self.prepared_end()
    }

    /// Whether the last attempt to prepare a segment failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// An attempt to prepare a segment has ended.
    pub(crate) fn prepared(&mut self, result: Result<Arc<Segment>>) {
        self.round += 1;
        match result {
            Ok(segment) => {
                self.upcoming.push_back(segment);
                self.failure = None;
            }
            Err(error) => {
                self.wanted_end = Lsn::ORIGIN;
                self.failure = Some(PrepareFailure {
                    round: self.round,
                    error,
                });
            }
        }
    }

    /// Space came free: whatever could not be prepared may be tried again.
    pub(crate) fn space_freed(&mut self) {
        self.failure = None;
        self.at_cap = None;
        self.freed += 1;
    }

    /// How often space came free.
    pub(crate) fn times_freed(&self) -> u64 {
        self.freed
    }
}
