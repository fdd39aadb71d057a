//! Comparison of a log with the history of a position: does the log contain it, and if not, from which
//! LSN on do they differ?

use crate::error::{Error, Result};
use crate::read::batches::{Batches, first_batch_at};
use crate::read::history::{History, Position};
use crate::read::view::View;
use crate::scan::batch::{LinkedHeader, ScanState};
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Epoch, LogId, Lsn, planted};
use std::path::Path;
use std::sync::Arc;

/// Bytes per read while reading header after header.
const READ_AHEAD: u64 = 64 << 10;

/// Log with which a position is compared.
pub(crate) struct Compared<'a> {
    pub(crate) view: &'a Arc<View>,
    /// Exclusive end of the log's batches.
    pub(crate) end: Lsn,
    /// Epoch of the last batch.
    pub(crate) epoch: Epoch,
}

/// Fails if the position belongs to another log than the one in `path`.
pub(crate) fn check_log(position: &Position, path: &Path, found: LogId) -> Result<()> {
    let wanted = position.log_id();
    let is_same = planted!("other-log-followed", true, else wanted == found);
    match is_same {
        true => Ok(()),
        false => Err(Error::OtherLog {
            path: path.to_owned(),
            wanted,
            found,
        }),
    }
}

impl Compared<'_> {
    /// Returns the history of a follower that begins at `from`, an LSN of this log.
    pub(super) fn history_below(&self, from: Lsn) -> Result<History> {
        let epoch = self.epoch_below(from)?;
        Ok(History::beginning(self.view.log_id, epoch, from))
    }

    /// Fails if this log contains another history below the position. The caller has checked that the
    /// position belongs to this log, and lies neither below the front nor in a void range.
    pub(crate) fn check(&self, position: &Position) -> Result<()> {
        if planted!("history-not-compared") {
            return Ok(());
        }
        // A follower whose position is behind a void range has the records before the range.
        let at = self.below_voids(position.lsn());
        if position.lsn() <= self.end && !self.is_in_header_area(at) {
            let below = position.back_to(at);
            let known = below.epoch();
            // If false, the follower lacks records below: it has seen a truncation that voided them.
            let has_all = below.lsn() == at;
            // If nothing is known of the history below, only a truncation that this log lacks proves that the
            // histories differ.
            if known.is_none() && has_all || known == Some(self.epoch_below(at)?) {
                return match has_all {
                    true => Ok(()),
                    false => Err(Error::Voided {
                        lsn: position.lsn(),
                        from: below.lsn(),
                        to: position.lsn(),
                    }),
                };
            }
        }
        Err(Error::Diverged {
            path: self.view.path.clone(),
            lsn: position.lsn(),
            from: self.parting(position)?,
        })
    }

    /// Returns true if no batch of this log ends at `at`, because `at` lies in a segment's header area.
    /// Then another history has written batches up to `at`, on a device with a smaller write unit.
    ///
    /// Returns false at the front, which may be the end of a header area if an opening has voided
    /// everything before. Also returns false below a log's first batch, where no history exists.
    fn is_in_header_area(&self, at: Lsn) -> bool {
        let segment = self.view.segments().containing(at);
        let is_in = |start: Lsn, first: Lsn| Lsn::ORIGIN < start && start < at && at <= first;
        at != self.view.front()
            && segment.is_some_and(|s| is_in(s.header.start, s.header.first_batch()))
    }

    /// Returns the LSN from which on the log does not contain the position's history. It may lie below the
    /// front.
    fn parting(&self, position: &Position) -> Result<Lsn> {
        let parted = position.parting(|epoch| self.end_of(epoch))?;
        let parted = self.below_voids(parted.unwrap_or(Lsn::ORIGIN));
        // This log may contain records that a truncation in the position's history has voided.
        let lowest = position.back_to(parted).lsn();
        Ok(planted!("history-without-voids", parted, else lowest))
    }

    /// Returns the start of the void ranges that contain the byte before `at`, one after the other; `at` if
    /// no range contains it.
    fn below_voids(&self, mut at: Lsn) -> Lsn {
        let voids = self.view.voids();
        // A void range may begin at the start of the log.
        while let Some((from, _)) = at.0.checked_sub(1).and_then(|b| voids.covering(Lsn(b))) {
            at = from;
        }
        at
    }

    /// Returns the epoch of the batch that contains the byte before `at`; 0:0 at the beginning of a log.
    fn epoch_below(&self, at: Lsn) -> Result<Epoch> {
        if at == Lsn::ORIGIN {
            return Ok(Epoch::default());
        }
        let below = Lsn(at.0 - 1);
        let is_readable = self
            .view
            .segments()
            .containing(below)
            .is_some_and(|s| below >= s.header.first_batch())
            && self.view.voids().covering(below).is_none();
        if is_readable && let Some(batch) = Batches::small_reads().holding(self.view, below)? {
            return Ok(batch.header.epoch);
        }
        // The byte lies in a truncated segment before the front, or in a segment's header area. The next
        // batch names the epoch before it.
        let mut next = first_batch_at(self.view, at)?;
        // A repair leaves zeroes in the range that it voids, which may begin in a header area.
        while let Some((_, to)) = next.and_then(|next| self.view.voids().covering(next)) {
            next = first_batch_at(self.view, to)?;
        }
        match next.filter(|next| *next < self.end) {
            Some(next) => {
                let next = Batches::small_reads().load(self.view, ScanState::unlinked(next))?;
                Ok(epoch_before(&next.header))
            }
            None => Ok(self.epoch),
        }
    }

    /// Returns the exclusive end of an epoch's batches in this log; `None` if it has none.
    fn end_of(&self, epoch: Epoch) -> Result<Option<Lsn>> {
        let mut read_buffer = read_buffer();
        let Some(mut state) = self.last_segment_with(epoch, &mut read_buffer)? else {
            return Ok(None);
        };
        let mut end = None;
        while state.at < self.end {
            let voided = self.view.voids().covering(state.at);
            if let Some((_, to)) = voided {
                state = ScanState::after_void(to);
                continue;
            }
            let segment = self.view.segments().containing(state.at);
            let Some(segment) = segment else { break };
            let read = LinkedHeader::read_in(&mut read_buffer, segment, self.view.log_id, &state)?;
            let Ok(linked) = read else { break };
            if linked.header.epoch.counter > epoch.counter {
                break;
            }
            state = ScanState::after(&linked);
            if linked.header.epoch == epoch {
                end = Some(state.at);
            }
        }
        Ok(end)
    }

    /// Returns the state from which to search for the last batch of `epoch`: the start of the last segment
    /// that does not begin in a later epoch. Returns `None` if there is no such segment.
    fn last_segment_with(
        &self,
        epoch: Epoch,
        read_buffer: &mut ReadBuffer,
    ) -> Result<Option<ScanState>> {
        let all = self.view.segments().all();
        for segment in all.iter().rev() {
            let first = segment.header.first_batch();
            let is_void = self.view.voids().covering(first).is_some();
            if first >= self.end || is_void {
                continue;
            }
            let header =
                first_header(segment, read_buffer)?.filter(|h| h.log_id == self.view.log_id);
            if header.is_some_and(|h| h.epoch.counter <= epoch.counter) {
                return Ok(Some(ScanState::unlinked(segment.header.start)));
            }
        }
        Ok(None)
    }
}

fn read_buffer() -> ReadBuffer {
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    read_buffer.limit(READ_AHEAD);
    read_buffer
}

/// Returns the epoch of the batch before the one with this header.
fn epoch_before(header: &BatchHeader) -> Epoch {
    match header.kind {
        BatchKind::Epoch => header.prev_epoch,
        _ => header.epoch,
    }
}

fn first_header(
    segment: &Arc<Segment>,
    read_buffer: &mut ReadBuffer,
) -> Result<Option<BatchHeader>> {
    let first = segment.header.first_batch();
    let bytes = read_buffer.get(segment, segment.offset(first), BATCH_HEADER_LEN)?;
    let header = bytes.ok().and_then(|bytes| BatchHeader::decode(bytes).ok());
    Ok(header.filter(|h| h.lsn == first))
}
