//! Truncating the back: voiding the records from a position on.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::read::boundary::{boundary, boundary_at_most, past_void};
use crate::sync::wake::{WaitFor, Wake};
use logforce_format::{BatchKind, Lsn, planted};

/// Voids every record at and above `from`, durably.
pub(crate) fn truncate_back(engine: &Engine, from: Lsn) -> Result<()> {
    // Makes all records durable first, because record boundaries are looked up in the durable part only.
    let tail = engine.state().tail();
    if from > tail {
        return Err(Error::BeyondEnd {
            lsn: from,
            end: tail,
        });
    }
    // Compares with the requested front, which may lie above a front that a pin holds: the owner has
    // already dropped the records below it.
    let front = engine.pins.requested();
    if from < front {
        return Err(Error::Truncated { lsn: from, front });
    }
    engine.wait_until(tail, WaitLevel::Force)?;
    let from = past_void(&engine.view, from)?;
    let at = boundary(&engine.view, from)?;
    if !at.between_appends {
        return Err(Error::WithinAppend {
            lsn: from,
            start: boundary_at_most(&engine.view, from)?,
        });
    }
    if from >= engine.durable() {
        return Ok(());
    }
    let mut first_round = None;
    let end = loop {
        let seen = engine.events.progress.observe();
        {
            let mut state = engine.state();
            engine.poison.check()?;
            if state.lifecycle.closing {
                return Err(Error::Closed);
            }
            let smallest = engine.config.sizes.first;
            if state.has_space_for_empty_batch() && state.keeps_promises_beside_a_batch(smallest) {
                break state.place_empty_batch(BatchKind::Void, Some(from));
            }
            let one_more = state.segments.writable_end().plus(1);
            state.segments.request(one_more, &mut first_round)?;
        }
        let preallocator = &engine.events.preallocator;
        preallocator.notify(engine.runtime(), Wake::PreallocatorForSpace);
        engine.wait_for_progress(seen, WaitFor::Segment);
    };
    if planted!("void-not-forced") {
        return Ok(());
    }
    engine.wait_until(end, WaitLevel::Force)
}
