//! Pins, which hold the front for readers. A limit keeps a forgotten pin from filling the disk.
//!
//! `truncate_front` requests a front; the front moves to the oldest pin at most. When a pin advances or is
//! dropped, the preallocator moves the front. The thread that drops the pin does not: a move takes a
//! barrier, a forced control file and a directory sync, and a `Drop` may run in an async task or during a
//! panic. No caller waits for the move. It frees space, and the preallocator is the thread that needs space.

use crate::engine::Engine;
use crate::engine::pin_table::PinState;
use crate::error::{Error, Result};
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::Wake;
use crate::truncation::front::front_at;
use logforce_format::Lsn;
use std::sync::Arc;

/// A hold on the front of a log at or below a position, until the pin is dropped, advanced, or broken. It
/// exists in memory only, and ends when the log is closed.
///
/// A reader of the log creates a pin before it starts, and advances the pin as it reads. Then
/// [`Log::truncate_front`](crate::Log::truncate_front) does not drop records that it has not read yet. The
/// log breaks a pin that would keep more than
/// [`Options::max_pinned_size`](crate::Options::max_pinned_size) bytes; its reader then gets
/// [`Error::Truncated`].
pub struct Pin {
    engine: Arc<Engine>,
    id: u64,
}

impl Engine {
    /// Moves the front in the background after a pin advanced or was dropped. If it cannot move,
    /// the next truncation tries again.
    pub(crate) fn follow_pins(&self) {
        if self.pins.take_due() && self.move_front().is_err() {
            // A serious failure has poisoned the log. Other failures (a pin in a range that was voided
            // meanwhile, a file that could not be removed) cost only space.
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
    // Adds the pin before the check, so that the front cannot pass it meanwhile. If the check fails, the
    // drop removes the pin.
    let start = front_at(engine, lsn)?;
    match start == lsn {
        true => Ok(pin),
        // This pin holds the front until the pin at the append's start does.
        false => self::pin(engine, start),
    }
}

/// Pins the front at its current position; see `Log::pin`.
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
    /// Returns the pin's position.
    pub fn lsn(&self) -> Lsn {
        self.state().map_or(Lsn::ORIGIN, |p| p.at)
    }

    /// Returns true if the log has broken the pin, because it held more than
    /// [`Options::max_pinned_size`](crate::Options::max_pinned_size) bytes, or because the log was full
    /// and needed the space. A broken pin does not hold the front, and stays broken.
    pub fn is_broken(&self) -> bool {
        self.state().is_none_or(|p| p.broken)
    }

    /// Advances the pin to `lsn`, the start or the end of a durable record. From then on, the log may drop
    /// the records below: the front follows in the background, up to the position that
    /// [`Log::truncate_front`](crate::Log::truncate_front) has requested. If `lsn` lies within an atomic
    /// append, the front stays at the append's start. If `lsn` lies below the pin, nothing happens.
    ///
    /// Fails with [`Error::Truncated`] if the pin is broken, else with the errors of
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
        // A forked child has no preallocator, and its copy of the mutex may stay locked forever.
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
