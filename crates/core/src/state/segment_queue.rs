//! The current segment, the prepared ones behind it, and requests for more.

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
    /// Where the next batch begins if none is open; may be the end of `current`.
    next_batch: Lsn,
    /// As in the control file, durably: no batch may end above.
    write_limit: Lsn,
    /// How far ahead of the tail the limit is raised, bytes.
    limit_step: u64,
    /// The preallocator was woken to raise the limit.
    limit_due: bool,
    /// The preallocator was woken to prepare the segment behind the current one.
    next_due: bool,
    /// Appends had to wait for the last segment that was prepared.
    was_late: bool,
    /// Appends have requested prepared space up to here.
    requested_end: Lsn,
    /// Number of attempts to prepare a segment that have ended.
    round: u64,
    failure: Option<PrepareFailure>,
    /// The last early request for a checkpoint: for which prepared end, and whether its last segment was in
    /// use.
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

    /// Where the next batch begins if none is open.
    pub(super) fn next_batch(&self) -> Lsn {
        self.next_batch
    }

    /// A batch was closed, and ends at `end`.
    pub(super) fn batch_ended(&mut self, end: Lsn) {
        debug_assert!(
            end <= self.write_limit,
            "a batch up to {end}, limit {}",
            self.write_limit
        );
        self.next_batch = end;
    }

    /// The segment for the next batch, and how many bytes are left in it. Advances to the next
    /// segment if the current one is full: there must be one.
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

    /// Whether there is space for a batch without records that begins at `end`.
    pub(super) fn has_space_at(&self, end: Lsn) -> bool {
        let (at, segment) = match self.upcoming.front() {
            _ if end < self.current.header.end() => (end, &self.current),
            Some(next) => (next.header.first_batch(), next),
            None => return false,
        };
        at.plus(segment.header.write_unit.into()) <= self.write_limit
    }

    /// Exclusive end of the space that may be written: prepared, and below the limit.
    pub(crate) fn writable_end(&self) -> Lsn {
        self.prepared_end().min(self.write_limit)
    }

    /// The limit that is to be written down next, if the tail comes near to the one that is, or appends
    /// wait for a higher one.
    pub(crate) fn next_write_limit(&self, tail: Lsn) -> Option<Lsn> {
        let is_near = tail.plus(self.limit_step / 2) > self.write_limit;
        let is_requested = self.requested_end > self.write_limit;
        let next = self.write_limit_below(tail, self.prepared_end());
        (next > self.write_limit && (is_near || is_requested)).then_some(next)
    }

    /// The limit for segments that are prepared up to `end`.
    pub(crate) fn write_limit_below(&self, tail: Lsn, end: Lsn) -> Lsn {
        let wanted = tail.plus(self.limit_step).max(self.requested_end);
        wanted.min(end).max(self.write_limit)
    }

    /// Whether the preallocator is to be woken to raise the limit.
    pub(super) fn wants_write_limit(&mut self, tail: Lsn) -> bool {
        !self.limit_due
            && self.next_write_limit(tail).is_some_and(|_| {
                self.limit_due = true;
                true
            })
    }

    /// Whether so much of the current segment is used that the next one is to be prepared, of which
    /// there is none. Not from the segment's first byte on: a log that is short-lived never needs
    /// another, and until then nothing competes with its commits. At once if the last one came late.
    pub(crate) fn is_next_due(&self, tail: Lsn) -> bool {
        let (used, of) = self.used_of_current(tail);
        self.upcoming.is_empty() && used >= self.prepares_at(of)
    }

    /// How many bytes of a current segment `of` so many are used when the next one is to be prepared.
    pub(crate) fn prepares_at(&self, of: u64) -> u64 {
        if self.was_late { 0 } else { of / 2 }
    }

    /// Whether the preallocator is to be woken to prepare the next segment.
    pub(super) fn wants_next(&mut self, tail: Lsn) -> bool {
        !self.next_due && self.is_next_due(tail) && {
            self.next_due = true;
            true
        }
    }

    /// The control file has this limit, durably.
    pub(crate) fn raise_write_limit(&mut self, limit: Lsn) {
        self.write_limit = self.write_limit.max(limit);
        self.limit_due = false;
    }

    /// Exclusive end of the prepared segments.
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.upcoming.back().unwrap_or(&self.current).header.end()
    }

    /// How many segments are prepared behind the current one.
    pub(crate) fn upcoming(&self) -> usize {
        self.upcoming.len()
    }

    /// Used bytes and size of the current segment.
    pub(crate) fn used_of_current(&self, tail: Lsn) -> (u64, u64) {
        let header = &self.current.header;
        (tail.since(header.start).min(header.len), header.len)
    }

    /// Upper bound of the end of `appends` with `bytes` of frames together that begin at `tail`.
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
        // The smallest payload of a full batch, except for the one at a segment's end.
        let least = (full_batch.min(smallest_segment as usize / 2)
            - BATCH_HEADER_LEN
            - 2 * FRAME_ALIGN) as u64;
        // Each append may begin a batch of its own, and end in another.
        let batches = bytes as u64 / least + 2 * appends;
        let per_batch = (BATCH_HEADER_LEN + 2 * FRAME_HEADER_LEN) as u64 + unit;
        let sum = bytes as u64 + batches * per_batch;
        let crossings = sum / (smallest_segment / 2) + 1;
        let sum = sum + crossings * (per_batch + SegmentHeader::data_offset(unit as u32));
        tail.plus(sum + RESERVED_UNITS * unit)
    }

    /// Requests prepared space up to `end`. `first_round` keeps the round of the first request across
    /// retries; fails if an attempt after that round has failed.
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

    /// Appends have requested prepared space up to here.
    pub(crate) fn requested_end(&self) -> Lsn {
        self.requested_end
    }

    /// Requests one more segment, also after a failed attempt.
    pub(crate) fn request_one_more(&mut self) {
        self.requested_end = self.requested_end.max(self.prepared_end().plus(1));
    }

    /// Whether an append waits for another segment.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested_end > self.prepared_end()
    }

    /// Whether the last attempt to prepare a segment has failed.
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

    /// Notes an early request for a checkpoint. Returns true if that was made before, or the one after it.
    pub(crate) fn requested_at(&mut self, end: Lsn, in_use: bool) -> bool {
        let this = Some((end, in_use));
        let before = self.checkpoint_requested >= this;
        self.checkpoint_requested = self.checkpoint_requested.max(this);
        before
    }

    /// Space was freed: the preallocator may try again after a failure.
    pub(crate) fn space_freed(&mut self) {
        self.failure = None;
    }
}
