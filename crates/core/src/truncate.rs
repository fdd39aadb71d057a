//! Cutting the log at either end.

use crate::commit::How;
use crate::log::Shared;
use crate::reader::{boundary, past_void};
use crate::recovery::damage;
use crate::scan::{Stop, Window};
use crate::{Error, Result, retiring};
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, RecoveryCase, Seen, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Drops what lies below `to`, as far as no pin holds it.
pub(crate) fn front(shared: &Shared, to: Lsn) -> Result<()> {
    check_front(shared, to)?;
    shared.pins.want(to);
    shared.move_front()
}

pub(crate) fn check_front(shared: &Shared, to: Lsn) -> Result<()> {
    if to == shared.front() {
        return Ok(());
    }
    let at = boundary(&shared.view, past_void(&shared.view, to)?)?;
    if !at.between_appends {
        return Err(Error::NotABoundary { lsn: to });
    }
    Ok(())
}

/// Moves the front to `to`; by whoever has the turn.
pub(crate) fn front_to(shared: &Shared, to: Lsn) -> Result<()> {
    if to <= shared.front() {
        // What an earlier call could not do.
        return retiring::finish(shared);
    }
    // Again: it may have been wanted long ago, and taken back at the other end since.
    check_front(shared, to)?;
    // The anchor must not lie below the front; under a weak method this is where it moves.
    let durable = shared.durable();
    shared.bring(durable, How::Barrier)?;
    let keep = {
        let segments = shared.segments();
        match segments.containing(to) {
            Some(s) => s,
            // At the very end: the last segment stays.
            None => segments.all().pop().ok_or(Error::BeyondEnd {
                lsn: to,
                end: durable,
            })?,
        }
    };
    let first_segment = keep.header.start;
    let first_prev_crc = match first_link(shared, &keep) {
        Ok(link) => Some(link),
        // Only the segments below are kept for want of it, until the front comes to a later one: an
        // owner who drops what lies below the damage must not be refused for that damage.
        Err(Error::Damaged(_)) => None,
        Err(other) => return Err(other),
    };
    // The control file first: a segment that is gone while it is still promised is damage.
    shared.update_control(|c| {
        if planted!("front-not-written-down") {
            return;
        }
        if to > c.front {
            c.front = to;
        }
        if let Some(link) = first_prev_crc.filter(|_| first_segment > c.first_segment) {
            c.first_segment = first_segment;
            c.first_prev_crc = link;
        }
    })?;
    shared.front.fetch_max(to.0, AcqRel);
    shared.voids().drop_below(to);
    if first_prev_crc.is_some() {
        let mut segments = shared.segments();
        let gone = segments.take_below(first_segment);
        shared.retiring.begin(gone);
    }
    retiring::finish(shared)
}

/// The header checksum of the batch before the segment's first one.
fn first_link(shared: &Shared, segment: &Arc<crate::segments::Segment>) -> Result<u32> {
    let first = segment.header.first_batch();
    let anchor = shared.stage().line.anchor;
    if anchor.lsn <= first {
        // It has none yet: the next one will follow the last one written.
        return Ok(anchor.prev_crc);
    }
    let mut window = Window::new(ReadSource::Cache);
    window
        .get(segment, segment.offset(first), BATCH_HEADER_LEN)?
        .map_err(|lost| lost.found)
        .and_then(|bytes| BatchHeader::decode(bytes).map_err(|r| r.to_string()))
        .map(|h| h.prev_crc)
        .map_err(|found| {
            let stop = Stop {
                at: first,
                seen: Seen::Broken,
                found,
            };
            let segments = shared.segments();
            let mut d = damage(
                &shared.path,
                &segments,
                &stop,
                RecoveryCase::Damaged,
                anchor.lsn,
            );
            d.in_reading = true;
            Error::Damaged(Box::new(d))
        })
}

/// Takes back what lies at and above `from`.
pub(crate) fn back(shared: &Arc<Shared>, from: Lsn) -> Result<()> {
    // Everything is made durable first, so that there is one rule for where a record begins.
    let tail = shared.stage().tail();
    if from > tail {
        return Err(Error::BeyondEnd {
            lsn: from,
            end: tail,
        });
    }
    // Held back by a pin or not: its owner has dropped what lies below.
    let front = shared.pins.wanted();
    if from < front {
        return Err(Error::Truncated { lsn: from, front });
    }
    shared.bring(tail, How::Force)?;
    let from = past_void(&shared.view, from)?;
    let at = boundary(&shared.view, from)?;
    if !at.between_appends {
        return Err(Error::NotABoundary { lsn: from });
    }
    if from >= shared.durable() {
        return Ok(());
    }
    let mut asked = None;
    let end = loop {
        let seen = shared.progress.observe();
        {
            let mut stage = shared.stage();
            shared.poison.check()?;
            if stage.closing {
                return Err(Error::Closed);
            }
            if stage.has_space_for_mark() {
                break stage.place_mark(BatchKind::Void, Some(from));
            }
            shared.refuse_in_callback(&stage)?;
            if let (Some(failure), Some(round)) = (&stage.prepare_failure, asked)
                && failure.round > round
            {
                return Err(failure.error.clone());
            }
            let round = stage.prepare_round;
            asked.get_or_insert(round);
            stage.wanted_end = stage.prepared_end().plus(1);
        }
        shared.prepare.ring(&*shared.runtime);
        shared.progress.sleep(&*shared.runtime, seen, None);
    };
    if planted!("void-not-forced") {
        return Ok(());
    }
    shared.bring(end, How::Force)
}
