//! Pins hold the front for readers; a limit keeps a forgotten pin from filling the disk.
//!
//! `truncate_front` requests a front; the front moves to the oldest pin at most. When a pin
//! advances or is dropped, the preallocator moves the front on. The thread that drops it does not:
//! moving the front takes a barrier, a forced control file and a directory sync, and a `Drop` may
//! run in an async task or during a panic. Nothing waits for the move either: it frees space, and
//! the preallocator is the thread that needs space.

use crate::engine::Engine;
use crate::engine::pin_table::PinState;
use crate::error::{Error, Result};
use crate::sync::wake::Wake;
use crate::sync::wakers::refuse_in_waker;
use crate::truncation::front::front_at;
use logforce_format::Lsn;
use std::sync::Arc;

/// Holds the front of a log at or below a position, until it is dropped, advanced, or broken. It
/// exists in memory only, and ends when the log is closed.
///
/// A reader of the log creates one before it starts, and advances it as it reads; then
/// [`Log::truncate_front`](crate::Log::truncate_front) does not drop what it has not read yet. A
/// pin that would keep more than [`Options::max_pinned_size`](crate::Options::max_pinned_size)
/// bytes is broken, and its reader gets [`Error::Truncated`].
pub struct Pin {
    engine: Arc<Engine>,
    id: u64,
}

impl Engine {
    /// Moves the front in the background after a pin advanced or was dropped. If it cannot move,
    /// the next truncation tries again.
    pub(crate) fn follow_pins(&self) {
        if self.pins.take_due() && self.move_front().is_err() {
            // A failure that matters has poisoned the log. Others (a pin in a range that was voided
            // since, a file that could not be removed) cost only space.
        }
    }
}

/// Pins the front at `lsn`; see `Log::pin`.
pub(crate) fn pin(engine: &Arc<Engine>, lsn: Lsn) -> Result<Pin> {
    engine.view.check_process()?;
    let id = engine
        .pins
        .add(lsn, || engine.front())
        .map_err(|front| Error::Truncated { lsn, front })?;
    let pin = Pin {
        engine: engine.clone(),
        id,
    };
    // Pins first, then checks: the front cannot pass it meanwhile. If the check fails, the drop
    // removes the pin.
    let start = front_at(engine, lsn)?;
    match start == lsn {
        true => Ok(pin),
        // This pin holds the front below the append until the other pin does.
        false => self::pin(engine, start),
    }
}

/// Pins the front where it is; see `Log::pin_front`.
pub(crate) fn pin_front(engine: &Arc<Engine>) -> Result<Pin> {
    engine.view.check_process()?;
    // Adding this pin waits while the front moves.
    refuse_in_waker()?;
    let (id, _) = engine.pins.add_at_front(|| engine.front());
    Ok(Pin {
        engine: engine.clone(),
        id,
    })
}

impl Pin {
    /// Its position.
    pub fn lsn(&self) -> Lsn {
        self.state().map_or(Lsn::ORIGIN, |p| p.at)
    }

    /// Whether the log has broken the pin: it held more than
    /// [`Options::max_pinned_size`](crate::Options::max_pinned_size) bytes, or the log was full
    /// and needed the space. A broken pin holds nothing, and stays broken.
    pub fn is_broken(&self) -> bool {
        self.state().is_none_or(|p| p.broken)
    }

    /// Advances it to `lsn`, the start or the end of a durable record. The log may drop what lies
    /// below from then on: the front follows in the background, up to what
    /// [`Log::truncate_front`](crate::Log::truncate_front) has requested. Within an atomic append
    /// the front stays at its start. If `lsn` lies below the pin, nothing happens.
    ///
    /// [`Error::Truncated`] if it is broken and `lsn` below the front; else the errors of
    /// [`Log::pin`](crate::Log::pin). An error leaves the pin where it was.
    pub fn advance(&self, lsn: Lsn) -> Result<()> {
        let engine = &self.engine;
        engine.view.check_process()?;
        match self.state() {
            Some(p) if p.broken => {
                return Err(Error::Truncated {
                    lsn: p.at,
                    front: engine.front().max(engine.pins.requested()),
                });
            }
            Some(p) if lsn <= p.at => return Ok(()),
            _ => {}
        }
        let whole = front_at(engine, lsn)? == lsn;
        if engine.pins.advance(self.id, lsn, whole, || engine.front()) {
            let preallocator = &engine.events.preallocator;
            preallocator.notify(engine.runtime(), Wake::PinAdvanced);
        }
        Ok(())
    }

    fn state(&self) -> Option<PinState> {
        self.engine.pins.get(self.id)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let engine = &self.engine;
        // A forked child has no preallocator, and its copy of the mutex may stay locked for ever.
        if engine.view.check_process().is_err() {
            return;
        }
        if engine.pins.remove(self.id, || engine.front()) {
            let preallocator = &engine.events.preallocator;
            preallocator.notify(engine.runtime(), Wake::PinDropped);
        }
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin")
            .field("lsn", &self.lsn())
            .field("is_broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}
