//! Truncating the front: drops the records below it, and frees their segments.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::read::boundary::{boundary, boundary_at_most, past_void};
use crate::scan::batch::Stop;
use crate::scan::end_of_log::damage;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::retired_files::Reuse;
use crate::storage::segment::Segment;
use crate::sync::wake::Wake;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Lsn, NextBatch, RecoveryCase, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Drops the records below the last boundary at or below `to`, or below the oldest pin.
pub(crate) fn truncate_front(engine: &Engine, to: Lsn) -> Result<()> {
    if engine.durable() < to {
        // The records below `to` are not forced yet, and the front must not lie above the durable LSN.
        // Fails beyond the end of the log.
        engine.wait_until(to, WaitLevel::Force)?;
    }
    let front = engine.front();
    let to = match to <= front {
        // Continues nevertheless: an earlier call may have left files that it could not remove.
        true => front,
        false => match front_at(engine, to) {
            Ok(to) => to,
            // `to` lies within a record.
            Err(Error::NotABoundary { .. }) => boundary_at_most(&engine.view, to)?,
            // Another truncation has passed `to` meanwhile.
            Err(Error::Truncated { front, .. }) => front,
            Err(other) => return Err(other),
        },
    };
    engine.pins.request(to);
    engine.move_front()
}

/// Returns the highest possible front at or below `to`, which is the start or the end of a record. This is
/// `to`, or the start of the atomic append that contains it, because an append is dropped only as a whole.
pub(crate) fn front_at(engine: &Engine, to: Lsn) -> Result<Lsn> {
    if to == engine.front() {
        return Ok(to);
    }
    let at = boundary(&engine.view, past_void(&engine.view, to)?)?;
    match at.between_appends {
        true => Ok(to),
        false => boundary_at_most(&engine.view, to),
    }
}

fn check_front(engine: &Engine, to: Lsn) -> Result<()> {
    match front_at(engine, to)? == to {
        true => Ok(()),
        false => Err(Error::NotABoundary { lsn: to }),
    }
}

/// Moves the front to `to`. The caller has the turn of the pins
/// ([`PinTable::begin_move`](crate::engine::pin_table::PinTable::begin_move)).
pub(crate) fn move_front_to(engine: &Engine, to: Lsn) -> Result<()> {
    if to <= engine.front() {
        // Removes files that an earlier call could not remove.
        return finish_retired(engine);
    }
    // Checked again: since the request, `truncate_back` may have voided this position.
    check_front(engine, to)?;
    // The anchor must not lie below the front. Under a weak method only a barrier moves it.
    let durable = engine.durable();
    engine.wait_until(durable, WaitLevel::Barrier)?;
    let keep = {
        let segments = engine.view.segments();
        match segments.containing(to) {
            Some(s) => s,
            // At the end of the log, the last segment stays.
            None => segments.all().pop().ok_or(Error::BeyondEnd {
                lsn: to,
                end: durable,
            })?,
        }
    };
    let first_segment = keep.header.start;
    let first_prev_crc = match first_prev_crc_of(engine, &keep) {
        Ok(link) => Some(link),
        // The first batch is damaged. The segments below are kept until the front reaches a later segment.
        // The truncation does not fail, because owners remove damage by truncating.
        Err(Error::Damaged(_)) => None,
        Err(other) => return Err(other),
    };
    // Updates the control file first. Otherwise a crash could leave a control file that lists a removed
    // segment, which would be reported as damage.
    engine.update_control(|c| {
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
    engine.view.front.fetch_max(to.0, AcqRel);
    engine.view.voids().drop_below(to);
    if first_prev_crc.is_some() {
        let mut segments = engine.view.segments();
        let gone = segments.take_below(first_segment);
        engine.files.retired.add(gone);
    }
    finish_retired(engine)
}

/// Returns the header checksum of the batch before the segment's first batch.
fn first_prev_crc_of(engine: &Engine, segment: &Arc<Segment>) -> Result<u32> {
    let first = segment.header.first_batch();
    let anchor = engine.state().pipeline.anchor;
    if anchor.lsn <= first {
        // The segment has no batch yet. Its first batch will follow the batch at the anchor.
        return Ok(anchor.prev_crc);
    }
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    read_buffer
        .get(segment, segment.offset(first), BATCH_HEADER_LEN)?
        .map_err(|lost| lost.found)
        .and_then(|bytes| BatchHeader::decode(bytes).map_err(|r| r.to_string()))
        .map(|h| h.prev_crc)
        .map_err(|found| {
            let stop = Stop {
                at: first,
                seen: NextBatch::Broken,
                found,
            };
            let segments = engine.view.segments();
            let mut d = damage(
                &engine.view.path,
                &segments,
                &stop,
                RecoveryCase::Damaged,
                anchor.lsn,
            );
            d.in_reading = true;
            Error::Damaged(Box::new(d))
        })
}

impl Engine {
    /// Moves the front to the requested position, or to the oldest pin if that is lower.
    pub(crate) fn move_front(&self) -> Result<()> {
        let target = self.pins.begin_move();
        let to = match target.to > self.front() {
            true => self.front_for_replicas(target.to)?,
            false => target.to,
        };
        let is_held = target.is_held || to < target.to;
        // A pin in a range that was voided meanwhile cannot be the front. The front then does not move.
        if to > self.front() && is_held && check_front(self, to).is_err() {
            return Ok(());
        }
        move_front_to(self, to)
    }
}

/// Turns the files of truncated segments into spares, or removes them, and wakes the preallocator. The
/// caller has the turn of the pins.
///
/// # Errors
/// Errors of the system. The next call tries again.
pub(crate) fn finish_retired(engine: &Engine) -> Result<()> {
    let options = &engine.config.options;
    // Called before the spares are locked, because it reads the clock.
    let wanted = engine.next_segment_len(0);
    let reuse = Reuse {
        room: options
            .max_spare_segments
            .saturating_sub(engine.files.spares().len()),
        sizes: &engine.config.sizes,
        wanted,
    };
    let add = |spares: &mut Vec<_>| engine.files.spares().append(spares);
    let (freed, finished) = engine.files.retired.finish(&engine.view.dir, reuse, add);
    if freed > 0 {
        engine.state().segments.space_freed();
        let preallocator = &engine.events.preallocator;
        preallocator.notify(engine.runtime(), Wake::SpaceFreed);
    }
    finished
}
