//! Queue of the current segment and the prepared ones behind it, and requests for more.

use crate::error::{Error, Result};
use crate::options::RESERVED_UNITS;
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

/// Prepared space: the current segment, and the upcoming ones.
pub(crate) struct SegmentQueue {
    current: Arc<Segment>,
    upcoming: VecDeque<Arc<Segment>>,
    /// LSN at which the next batch begins if none is open; may be the end of `current`.
    next_batch: Lsn,
    /// Limit that the control file durably contains: no batch may end above it.
    write_limit: Lsn,
    /// Distance between the tail and a new limit, bytes.
    limit_step: u64,
    /// True if the preallocator was woken to raise the limit.
    limit_due: bool,
    /// True if the preallocator was woken to prepare the segment behind the current one.
    next_due: bool,
    /// True if appends had to wait for the last segment that was prepared.
    was_late: bool,
    /// LSN up to which appends have requested prepared space.
    requested_end: Lsn,
    /// Number of attempts to prepare a segment that have ended.
    round: u64,
    failure: Option<PrepareFailure>,
    /// Last early request for a checkpoint: the prepared end for which it was made, and true if the last
    /// segment was in use.
    checkpoint_requested: Option<(Lsn, bool)>,
}

impl SegmentQueue {
    pub(crate) fn new(
        current: Arc<Segment>,
        upcoming: VecDeque<Arc<Segment>>,
        next_batch: Lsn,
        write_limit: Lsn,
        limit_step: u64,
    ) -> Self {
        SegmentQueue {
            current,
            upcoming,
            next_batch,
            write_limit,
            limit_step,
            limit_due: false,
            next_due: false,
            was_late: false,
            requested_end: Lsn::ORIGIN,
            round: 0,
            failure: None,
            checkpoint_requested: None,
        }
    }

    /// Returns the LSN at which the next batch begins if none is open.
    pub(super) fn next_batch(&self) -> Lsn {
        self.next_batch
    }

    /// Notes that a batch was closed, and ends at `end`.
    pub(super) fn batch_ended(&mut self, end: Lsn) {
        debug_assert!(
            end <= self.write_limit,
            "a batch up to {end}, limit {}",
            self.write_limit
        );
        self.next_batch = end;
    }

    /// Returns the segment for the next batch, the batch's LSN, and the number of bytes left in the segment.
    /// Advances to the next segment if the current one is full. Then a next segment must exist.
    pub(super) fn for_next_batch(&mut self) -> (&Arc<Segment>, Lsn, usize) {
        if self.next_batch >= self.current.header.end()
            && let Some(next) = self.upcoming.pop_front()
        {
            self.current = next;
            self.next_due = false;
            self.next_batch = self.current.header.first_batch();
        }
        let left = self.current.header.end().since(self.next_batch) as usize;
        debug_assert!(left > 0, "appends wait for prepared space");
        (&self.current, self.next_batch, left)
    }

    /// Returns true if there is space for a batch without records that begins at `end`.
    pub(super) fn has_space_at(&self, end: Lsn) -> bool {
        let (at, segment) = match self.upcoming.front() {
            _ if end < self.current.header.end() => (end, &self.current),
            Some(next) => (next.header.first_batch(), next),
            None => return false,
        };
        at.plus(segment.header.write_unit.into()) <= self.write_limit
    }

    /// Returns the exclusive end of the space that may be written: prepared, and below the write limit.
    pub(crate) fn writable_end(&self) -> Lsn {
        self.prepared_end().min(self.write_limit)
    }

    /// Returns the limit to write to the control file next, if the tail is near the current limit, or if
    /// appends wait for a higher one.
    pub(crate) fn next_write_limit(&self, tail: Lsn) -> Option<Lsn> {
        let is_near = tail.plus(self.limit_step / 2) > self.write_limit;
        let is_requested = self.requested_end > self.write_limit;
        let next = self.write_limit_below(tail, self.prepared_end());
        (next > self.write_limit && (is_near || is_requested)).then_some(next)
    }

    /// Returns the next limit if segments are prepared up to `end`.
    pub(crate) fn write_limit_below(&self, tail: Lsn, end: Lsn) -> Lsn {
        let wanted = tail.plus(self.limit_step).max(self.requested_end);
        wanted.min(end).max(self.write_limit)
    }

    /// Returns true if the preallocator must be woken to raise the limit.
    pub(super) fn wants_write_limit(&mut self, tail: Lsn) -> bool {
        !self.limit_due
            && self.next_write_limit(tail).is_some_and(|_| {
                self.limit_due = true;
                true
            })
    }

    /// Returns true if no next segment is prepared, and the current one is full enough to prepare it. The
    /// next segment is not prepared from the first byte on. A short-lived log never needs it, and preparing
    /// it competes with commits. It is prepared at once if appends had to wait for the last one.
    pub(crate) fn is_next_due(&self, tail: Lsn) -> bool {
        let (used, of) = self.used_of_current(tail);
        self.upcoming.is_empty() && used >= self.prepares_at(of)
    }

    /// Returns the fill level of a segment of `of` bytes at which the next one is prepared. Early, so that
    /// the preparation can take its time: commits wait behind each of its writes.
    pub(crate) fn prepares_at(&self, of: u64) -> u64 {
        if self.was_late { 0 } else { of / 4 }
    }

    /// Returns true if the preallocator must be woken to prepare the next segment.
    pub(super) fn wants_next(&mut self, tail: Lsn) -> bool {
        !self.next_due && self.is_next_due(tail) && {
            self.next_due = true;
            true
        }
    }

    /// Notes that the control file durably contains this limit.
    pub(crate) fn raise_write_limit(&mut self, limit: Lsn) {
        self.write_limit = self.write_limit.max(limit);
        self.limit_due = false;
    }

    /// Returns the exclusive end of the prepared segments.
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.upcoming.back().unwrap_or(&self.current).header.end()
    }

    /// Returns the number of segments prepared behind the current one.
    pub(crate) fn upcoming(&self) -> usize {
        self.upcoming.len()
    }

    /// Returns the number of used bytes, and the size, of the current segment.
    pub(crate) fn used_of_current(&self, tail: Lsn) -> (u64, u64) {
        let header = &self.current.header;
        (tail.since(header.start).min(header.len), header.len)
    }

    /// Returns an upper bound for the end of `appends` that begin at `tail` and have `bytes` of frames in
    /// total.
    pub(super) fn worst_case_end(
        &self,
        tail: Lsn,
        appends: u64,
        bytes: usize,
        full_batch: usize,
        smallest_segment: u64,
    ) -> Lsn {
        // An earlier opening may have prepared segments with other options.
        let prepared = std::iter::once(&self.current).chain(&self.upcoming);
        let (unit, smallest_segment) =
            prepared.fold((0, smallest_segment), |(unit, smallest), s| {
                (
                    unit.max(u64::from(s.header.write_unit)),
                    smallest.min(s.header.len),
                )
            });
        // Smallest payload of a full batch, except for the one at a segment's end.
        let least = (full_batch.min(smallest_segment as usize / 2)
            - BATCH_HEADER_LEN
            - 2 * FRAME_ALIGN) as u64;
        // Each append may begin a new batch, and end in another one.
        let batches = bytes as u64 / least + 2 * appends;
        let per_batch = (BATCH_HEADER_LEN + 2 * FRAME_HEADER_LEN) as u64 + unit;
        let sum = bytes as u64 + batches * per_batch;
        let crossings = sum / (smallest_segment / 2) + 1;
        let sum = sum + crossings * (per_batch + SegmentHeader::data_offset(unit as u32));
        tail.plus(sum + RESERVED_UNITS * unit)
    }

    /// Requests prepared space up to `end`. `first_round` keeps the round of the first request across
    /// retries. Fails if an attempt to prepare a segment has failed after that round.
    pub(crate) fn request(&mut self, end: Lsn, first_round: &mut Option<u64>) -> Result<()> {
        if let (Some(failure), Some(round)) = (&self.failure, *first_round)
            && failure.round > round
        {
            return Err(failure.error.clone());
        }
        first_round.get_or_insert(self.round);
        self.requested_end = self.requested_end.max(end);
        Ok(())
    }

    /// Returns the LSN up to which appends have requested prepared space.
    pub(crate) fn requested_end(&self) -> Lsn {
        self.requested_end
    }

    /// Requests one more segment, even after a failed attempt.
    pub(crate) fn request_one_more(&mut self) {
        self.requested_end = self.requested_end.max(self.prepared_end().plus(1));
    }

    /// Returns true if an append waits for another segment.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested_end > self.prepared_end()
    }

    /// Returns true if the last attempt to prepare a segment has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Registers the end of an attempt to prepare a segment.
    pub(crate) fn prepared(&mut self, result: Result<Vec<Arc<Segment>>>) {
        self.round += 1;
        match result {
            Ok(segments) => {
                self.was_late = self.is_requested();
                self.upcoming.extend(segments);
                self.failure = None;
            }
            Err(error) => {
                self.requested_end = Lsn::ORIGIN;
                self.failure = Some(PrepareFailure {
                    round: self.round,
                    error,
                });
            }
        }
    }

    /// Notes an early request for a checkpoint. Returns true if this request, or a later one, was made
    /// before.
    pub(crate) fn requested_at(&mut self, end: Lsn, in_use: bool) -> bool {
        let this = Some((end, in_use));
        let before = self.checkpoint_requested >= this;
        self.checkpoint_requested = self.checkpoint_requested.max(this);
        before
    }

    /// Notes that space was freed: the preallocator may try again after a failure.
    pub(crate) fn space_freed(&mut self) {
        self.failure = None;
    }
}
