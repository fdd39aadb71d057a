//! Truncating the log at its front: the records below are dropped, their segments reused.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::SyncLevel;
use crate::read::reader::{boundary, past_void};
use crate::scan::batch::Stop;
use crate::scan::end_of_log::damage;
use crate::storage::retired_files::Reuse;
use crate::storage::segment::Segment;
use crate::storage::window::Window;
use crate::sync::wake::Wake;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Lsn, RecoveryCase, Seen, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Drops what lies below `to`, as far as no pin holds it.
pub(crate) fn truncate_front(engine: &Engine, to: Lsn) -> Result<()> {
    check_front(engine, to)?;
    engine.pins.want(to);
    engine.move_front()
}

pub(crate) fn check_front(engine: &Engine, to: Lsn) -> Result<()> {
    if to == engine.front() {
        return Ok(());
    }
    let at = boundary(&engine.view, past_void(&engine.view, to)?)?;
    if !at.between_appends {
        return Err(Error::NotABoundary { lsn: to });
    }
    Ok(())
}

/// Moves the front to `to`; by whoever has the turn.
pub(crate) fn front_to(engine: &Engine, to: Lsn) -> Result<()> {
    if to <= engine.front() {
        // What an earlier call could not do.
        return finish_retired(engine);
    }
    // Again: it may have been wanted long ago, and taken back at the other end since.
    check_front(engine, to)?;
    // The anchor must not lie below the front; under a weak method this is where it moves.
    let durable = engine.durable();
    engine.wait_until(durable, SyncLevel::Barrier)?;
    let keep = {
        let segments = engine.view.segments();
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
    let first_prev_crc = match first_link(engine, &keep) {
        Ok(link) => Some(link),
        // Only the segments below are kept for want of it, until the front comes to a later one: an
        // owner who drops what lies below the damage must not be refused for that damage.
        Err(Error::Damaged(_)) => None,
        Err(other) => return Err(other),
    };
    // The control file first: a segment that is gone while it is still promised is damage.
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
        engine.files.retired.begin(gone);
    }
    finish_retired(engine)
}

/// The header checksum of the batch before the segment's first one.
fn first_link(engine: &Engine, segment: &Arc<Segment>) -> Result<u32> {
    let first = segment.header.first_batch();
    let anchor = engine.state().pipeline.anchor;
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
    /// Moves the front as far as it is wanted and no pin holds it.
    pub(crate) fn move_front(&self) -> Result<()> {
        let target = self.pins.begin_move();
        let to = target.to;
        // A pin in a range that was truncated since is no place for the front: at or below it is
        // where the front stays, then.
        if to > self.front() && target.is_held && check_front(self, to).is_err() {
            return Ok(());
        }
        front_to(self, to)
    }
}

/// Makes spares of the files that left the log, or removes them, and wakes whoever waits for space.
/// By whoever has the turn.
///
/// # Errors
/// Of the system; what is left is done by the next call.
pub(crate) fn finish_retired(engine: &Engine) -> Result<()> {
    let options = &engine.config.options;
    let reuse = Reuse {
        room: options
            .max_spare_segments
            .saturating_sub(engine.files.spares().len()),
        len: options.segment_size,
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
