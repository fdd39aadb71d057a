//! Boundaries of records and of atomic appends.

use crate::error::{Error, Result};
use crate::read::batches::{Batches, Loaded, first_batch_at, malformed};
use crate::read::view::View;
use crate::scan::batch::ScanState;
use logforce_format::Lsn;
use logforce_format::frame::Frame;
use std::sync::Arc;

/// A boundary at an LSN.
pub(crate) struct Boundary {
    /// LSN of the batch to start reading from.
    pub(crate) batch: Lsn,
    /// True if an atomic append begins or ends here; false if the LSN lies within one.
    pub(crate) between_appends: bool,
}

/// Fails if `lsn` lies below the front, in a void range, or beyond the end.
pub(super) fn check_range(view: &View, lsn: Lsn) -> Result<()> {
    let front = view.front();
    if lsn < front {
        return Err(Error::Truncated { lsn, front });
    }
    let voided = view.voids().covering(lsn);
    if let Some((from, to)) = voided {
        return Err(Error::Voided { lsn, from, to });
    }
    let end = view.durable();
    if lsn > end {
        return Err(Error::BeyondEnd { lsn, end });
    }
    Ok(())
}

/// Returns the end of the void range that begins at `lsn`, if `lsn` is the front or the end of a record
/// that is not voided. Otherwise returns `lsn`.
pub(crate) fn past_void(view: &Arc<View>, lsn: Lsn) -> Result<Lsn> {
    let covering = view.voids().covering(lsn);
    let Some((from, to)) = covering else {
        return Ok(lsn);
    };
    if lsn == view.front() {
        return Ok(to);
    }
    if lsn != from || lsn < view.front() {
        return Ok(lsn);
    }
    // Searches for the record's last byte, not for its end. If the record fills its batch, its end is the
    // position of the next batch, which was voided, was never written, or lies in a segment's header area.
    let mut batches = Batches::small_reads();
    let ends_there = batches.holding(view, Lsn(lsn.0 - 1))?.is_some_and(|batch| {
        let mut frames = batch.frames();
        let ends = |f: &Frame<'_>| f.header.last && f.end() == lsn;
        // The position is the end of a batch, for a follower that has returned all records of the batch.
        let is_whole = || {
            let last = batch.frames().last();
            batch.next.at == lsn && last.is_none_or(|f| f.is_ok_and(|f| f.header.last))
        };
        frames.any(|f| f.is_ok_and(|f| ends(&f))) || is_whole()
    });
    Ok(if ends_there { to } else { lsn })
}

/// Finds the batch from which to read at `lsn`. Fails unless `lsn` is the start or the end of a durable
/// record, or the front.
pub(crate) fn boundary(view: &Arc<View>, lsn: Lsn) -> Result<Boundary> {
    check_range(view, lsn)?;
    if lsn == view.durable() {
        return Ok(Boundary {
            batch: lsn,
            between_appends: true,
        });
    }
    let not = Error::NotABoundary { lsn };
    let mut batches = Batches::small_reads();
    let Some(batch) = batches.holding(view, lsn)? else {
        // The position lies in a segment's header area, whose start is where the previous batch ended.
        let first = first_batch_at(view, lsn)?.ok_or(not.clone())?;
        let is_start = view
            .segments()
            .containing(lsn)
            .is_some_and(|s| s.header.start == lsn);
        if first >= view.durable() {
            return if is_start {
                Ok(Boundary {
                    batch: lsn,
                    between_appends: true,
                })
            } else {
                Err(not)
            };
        }
        let batch = batches.load(view, ScanState::unlinked(first))?;
        return if is_start {
            begins(view, &batch, not)
        } else {
            Err(not)
        };
    };
    if lsn == batch.header.lsn {
        return begins(view, &batch, not);
    }
    for frame in batch.frames() {
        let Frame {
            lsn: at, header, ..
        } = frame.map_err(|m| malformed(view, m.0))?;
        if at == lsn {
            return if header.first {
                Ok(Boundary {
                    batch: batch.header.lsn,
                    between_appends: !header.follows,
                })
            } else {
                Err(not)
            };
        }
    }
    match batch.frames().last() {
        Some(Ok(frame)) if frame.end() == lsn && frame.header.last => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: !frame.header.joined,
        }),
        _ => Err(not),
    }
}

/// Returns the highest position at or below `lsn`, and at or below the durable end, at which the log may
/// be cut: an atomic append begins or ends there.
pub(crate) fn boundary_at_most(view: &Arc<View>, lsn: Lsn) -> Result<Lsn> {
    let (front, durable) = (view.front(), view.durable());
    if lsn < front {
        return Err(Error::Truncated { lsn, front });
    }
    if lsn >= durable {
        return Ok(durable);
    }
    let mut batches = Batches::small_reads();
    let mut at = lsn;
    while at > front {
        let voided = view.voids().covering(at);
        if let Some((from, _)) = voided {
            // The last record before the void range ends at the start of the range, or in the batch before.
            at = Lsn(from.0.saturating_sub(1));
            continue;
        }
        let begin = match batches.holding(view, at)? {
            Some(batch) => {
                if let Some(found) = last_boundary(view, &batch, lsn)? {
                    return Ok(found.max(front));
                }
                batch.header.lsn
            }
            None => match view.segments().containing(at) {
                Some(segment) => segment.header.start,
                None => front,
            },
        };
        // No boundary in this batch: a long append begins in a batch further back.
        at = Lsn(begin.0.saturating_sub(1));
    }
    Ok(front)
}

/// Returns the lowest position at or above `segment_start` at which the log may be cut, or the durable
/// end.
pub(crate) fn boundary_at_or_after_segment(view: &Arc<View>, segment_start: Lsn) -> Result<Lsn> {
    let durable = view.durable();
    let mut batches = Batches::small_reads();
    let mut at = segment_start;
    let mut is_first = true;
    while let Some(begin) = first_batch_at(view, at)?.filter(|begin| *begin < durable) {
        let voided = view.voids().covering(begin);
        if let Some((_, to)) = voided {
            at = to;
            is_first = false;
            continue;
        }
        let batch = batches.load(view, ScanState::unlinked(begin))?;
        for frame in batch.frames() {
            let frame = frame.map_err(|m| malformed(view, m.0))?;
            if frame.header.first && !frame.header.follows {
                // Returns the segment's start if no append crosses it.
                return Ok(if is_first { segment_start } else { frame.lsn });
            }
            if frame.header.last && !frame.header.joined {
                return Ok(frame.end());
            }
            is_first = false;
        }
        at = batch.next.at;
    }
    Ok(durable)
}

/// Returns the last position in the batch, at or below `lsn`, at which an append begins or ends.
fn last_boundary(view: &View, batch: &Loaded, lsn: Lsn) -> Result<Option<Lsn>> {
    let mut last = None;
    let mut is_empty = true;
    for frame in batch.frames() {
        let frame = frame.map_err(|m| malformed(view, m.0))?;
        if is_empty && frame.header.first && !frame.header.follows {
            last = Some(batch.header.lsn);
        }
        is_empty = false;
        if view.voids().covering(frame.lsn).is_some() {
            continue;
        }
        if frame.header.first && !frame.header.follows && frame.lsn <= lsn {
            last = Some(frame.lsn);
        }
        if frame.header.last && !frame.header.joined && frame.end() <= lsn {
            last = Some(frame.end());
        }
    }
    Ok(if is_empty {
        Some(batch.header.lsn)
    } else {
        last
    })
}

/// Returns the boundary at the start of a batch; fails with `not` if the batch continues a record.
fn begins(view: &View, batch: &Loaded, not: Error) -> Result<Boundary> {
    match batch.frames().next() {
        None => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: true,
        }),
        Some(Ok(f)) if f.header.first => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: !f.header.follows,
        }),
        Some(Ok(_)) => Err(not),
        Some(Err(m)) => Err(malformed(view, m.0)),
    }
}
