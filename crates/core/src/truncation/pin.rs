//! Pins: readers that hold the front back, and the limit that keeps a dead one from filling the
//! disk.
//!
//! `truncate_front` notes which front is wanted; the front itself moves to the oldest pin at most.
//! When a pin advances or goes, the preallocator moves the front on. Not whoever dropped it: to
//! move the front takes a barrier, a forced control file and a directory sync, and a `Drop` may run
//! anywhere, in an async task or while a thread unwinds. Nor need anybody wait for it: space is what
//! is gained, and the preallocator is the one that needs space.

use crate::engine::Engine;
use crate::engine::pin_table::Held;
use crate::error::{Error, Result};
use crate::read::reader::{boundary, past_void};
use crate::sync::wake::Wake;
use logforce_format::Lsn;
use std::sync::Arc;

/// Holds the front of a log at or below a position, until it is dropped, advanced, or broken. In
/// memory only: nothing of it is left when the log is closed.
///
/// A reader of the log makes one before it starts, and advances it as it goes; then
/// [`Log::truncate_front`] does not take away what it has still to read. One that would keep more
/// than [`Options::max_pinned_bytes`](crate::Options::max_pinned_bytes) bytes is broken, and its reader gets
/// [`Error::Truncated`].
pub struct Pin {
    engine: Arc<Engine>,
    id: u64,
}

impl Engine {
    /// Moves the front in the background, where a pin advanced or went. Where it cannot move, it
    /// stays: the pins hold it at or below, and the next truncation tries again.
    pub(crate) fn follow_pins(&self) {
        if self.pins.take_due() && self.move_front().is_err() {
            // A failure that matters is in the poison. Others (a pin in a range that was truncated
            // since; a file that could not be removed) cost space and nothing else.
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
    // Held first, looked at then: the front cannot pass it meanwhile. If it is refused, its drop
    // lets go.
    match can_be_front(engine, lsn)? {
        true => Ok(pin),
        false => Err(Error::NotABoundary { lsn }),
    }
}

fn can_be_front(engine: &Engine, lsn: Lsn) -> Result<bool> {
    Ok(boundary(&engine.view, past_void(&engine.view, lsn)?)?.between_appends)
}

impl Pin {
    /// Where it is.
    pub fn lsn(&self) -> Lsn {
        self.held().map_or(Lsn::ORIGIN, |p| p.at)
    }

    /// It held more than [`Options::max_pinned_bytes`](crate::Options::max_pinned_bytes) bytes, or
    /// the log was full and needed the space, and does not hold anything any more. Never undone.
    pub fn is_broken(&self) -> bool {
        self.held().is_none_or(|p| p.broken)
    }

    /// Moves it on to `lsn`, the start or the end of a durable record. What lies below may be
    /// dropped from then on: the front follows in the background, as far as
    /// [`Log::truncate_front`](crate::Log::truncate_front) was asked for. Within an atomic append
    /// the front stays at its start. Below the place where it is nothing happens.
    ///
    /// [`Error::Truncated`] if it is broken and `lsn` below the front; else the errors of
    /// [`Log::pin`](crate::Log::pin). After an error it is where it was.
    pub fn advance(&self, lsn: Lsn) -> Result<()> {
        let engine = &self.engine;
        engine.view.check_process()?;
        match self.held() {
            Some(p) if p.broken => {
                return Err(Error::Truncated {
                    lsn: p.at,
                    front: engine.front().max(engine.pins.wanted()),
                });
            }
            Some(p) if lsn <= p.at => return Ok(()),
            _ => {}
        }
        let whole = can_be_front(engine, lsn)?;
        if engine.pins.advance(self.id, lsn, whole, || engine.front()) {
            let preallocator = &engine.events.preallocator;
            preallocator.notify(engine.runtime(), Wake::PinAdvanced);
        }
        Ok(())
    }

    fn held(&self) -> Option<Held> {
        self.engine.pins.get(self.id)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let engine = &self.engine;
        // The child of a fork: it has no preallocator, and the mutex may be held for ever.
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
