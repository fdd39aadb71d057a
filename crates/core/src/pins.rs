//! Pins: readers that hold the front back, and the limit that keeps a dead one from filling the
//! disk.
//!
//! `truncate_front` notes which front is wanted; the front itself moves to the oldest pin at most.
//! When a pin advances or goes, the preparing thread moves the front on. Not whoever dropped it: to
//! move the front takes a barrier, a forced control file and a directory sync, and a `Drop` may run
//! anywhere, in an async task or while a thread unwinds. Nor need anybody wait for it: space is what
//! is gained, and the preparing thread is the one that needs space.

use crate::log::Shared;
use crate::reader::{boundary, past_void};
use crate::seam_lock::SeamLock;
use crate::truncate::{check_front, front_to};
use crate::{Error, Log, Result};
use logforce_device::Runtime;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::{Lsn, planted};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Holds the front of a log at or below a position, until it is dropped, advanced, or broken. In
/// memory only: nothing of it is left when the log is closed.
///
/// A reader of the log makes one before it starts, and advances it as it goes; then
/// [`Log::truncate_front`] does not take away what it has still to read. One that would keep more
/// than [`Options::max_pinned_bytes`](crate::Options::max_pinned_bytes) bytes is broken, and its reader gets
/// [`Error::Truncated`].
pub struct Pin {
    shared: Arc<Shared>,
    id: u64,
}

/// A pin's state.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// What its owner asked for.
    at: Lsn,
    /// The last such position that can be the front: not in the middle of an atomic append.
    hold: Lsn,
    broken: bool,
}

#[derive(Default)]
struct Table {
    next: u64,
    pins: BTreeMap<u64, Held>,
    /// The highest front that was asked for.
    wanted: Lsn,
    /// The front is being moved here: too late for a pin below.
    moving_to: Lsn,
    /// What holds the front has moved or gone.
    due: bool,
}

impl Table {
    fn oldest(&self) -> Option<Lsn> {
        let held = self.pins.values().filter(|p| !p.broken);
        held.map(|p| p.hold).min()
    }

    /// Breaks the pins that `which` names, or would be kept back more than `limit` bytes below the
    /// wanted front.
    fn enforce(&mut self, limit: u64) -> bool {
        let wanted = self.wanted.0;
        let mut any = false;
        for pin in self.pins.values_mut() {
            if !pin.broken && wanted.saturating_sub(pin.hold.0) > limit {
                pin.broken = true;
                any = true;
            }
        }
        self.due |= any;
        any
    }
}

/// All pins of a log, and the front that they hold back.
pub(crate) struct Pins {
    table: Mutex<Table>,
    /// One move of the front at a time: a pin is refused below the one under way only.
    turn: SeamLock,
    limit: u64,
}

impl Pins {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, front: Lsn, limit: u64) -> Pins {
        let table = Table {
            wanted: front,
            ..Table::default()
        };
        Pins {
            table: Mutex::new(table),
            turn: SeamLock::new(runtime),
            limit,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of whoever moves the front, and of what must not come in between.
    pub(crate) fn turn(&self) -> crate::seam_lock::SeamGuard<'_> {
        self.turn.lock()
    }

    /// The highest front that was asked for, whether it is reached or not.
    pub(crate) fn wanted(&self) -> Lsn {
        self.table().wanted
    }

    /// Notes a wanted front and breaks the pins that are too far behind.
    pub(crate) fn want(&self, front: Lsn) {
        let mut table = self.table();
        table.wanted = table.wanted.max(front);
        table.enforce(self.limit);
        // The caller moves it.
        table.due = false;
    }

    /// Breaks the oldest of the pins that hold the front back, where space is needed more. Says
    /// whether there was one.
    pub(crate) fn give_way(&self) -> bool {
        let mut table = self.table();
        let Some(oldest) = table.oldest().filter(|o| *o < table.wanted) else {
            return false;
        };
        for pin in table.pins.values_mut() {
            pin.broken |= pin.hold == oldest;
        }
        table.due = true;
        true
    }

    /// Whether the front may be able to move; asked by the preparing thread, which moves it then.
    pub(crate) fn take_due(&self) -> bool {
        let mut table = self.table();
        table.enforce(self.limit);
        std::mem::take(&mut table.due)
    }
}

impl Shared {
    /// Moves the front as far as it is wanted and no pin holds it.
    pub(crate) fn move_front(&self) -> Result<()> {
        let _turn = self.pins.turn.lock();
        let (to, held) = {
            let mut table = self.pins.table();
            let to = table.oldest().unwrap_or(table.wanted).min(table.wanted);
            table.moving_to = to;
            (to, to < table.wanted)
        };
        // A pin in a range that was taken back since is no place for the front: at or below it is
        // where the front stays, then.
        let moved = match to > self.front() && held && check_front(self, to).is_err() {
            true => Ok(()),
            false => front_to(self, to),
        };
        self.pins.table().moving_to = Lsn::ORIGIN;
        moved
    }

    /// Moves the front in the background, where a pin advanced or went. Where it cannot move, it
    /// stays: the pins hold it at or below, and the next truncation tries again.
    pub(crate) fn follow_pins(&self) {
        if self.pins.take_due() && self.move_front().is_err() {
            // A failure that matters is in the poison. Others (a pin in a range that was taken back
            // since; a file that could not be removed) cost space and nothing else.
        }
    }

    /// The front that somebody who asks for it would be refused below.
    fn least_pin(&self, table: &Table) -> Lsn {
        self.front().max(table.moving_to)
    }
}

impl Log {
    /// Holds the front at or below `lsn`, the start or the end of a durable append, not below
    /// [`Log::front_lsn`], until the pin is dropped, advanced or broken.
    ///
    /// [`Error::Truncated`] below the front, [`Error::NotABoundary`] within an append,
    /// [`Error::Voided`] and [`Error::BeyondEnd`] as in reading.
    pub fn pin(&self, lsn: Lsn) -> Result<Pin> {
        let shared = self.shared_arc();
        shared.check_process()?;
        let pin = {
            let mut table = shared.pins.table();
            let front = shared.least_pin(&table);
            if lsn < front {
                return Err(Error::Truncated { lsn, front });
            }
            let id = table.next;
            table.next += 1;
            let held = Held {
                at: lsn,
                hold: lsn,
                broken: false,
            };
            table.pins.insert(id, held);
            Pin {
                shared: shared.clone(),
                id,
            }
        };
        // Held first, looked at then: the front cannot pass it meanwhile. If it is refused, its drop
        // lets go.
        match can_be_front(shared, lsn)? {
            true => Ok(pin),
            false => Err(Error::NotABoundary { lsn }),
        }
    }
}

fn can_be_front(shared: &Shared, lsn: Lsn) -> Result<bool> {
    Ok(boundary(&shared.view, past_void(&shared.view, lsn)?)?.between_appends)
}

impl Pin {
    /// Where it is.
    pub fn lsn(&self) -> Lsn {
        self.held().map_or(Lsn::ORIGIN, |p| p.at)
    }

    /// It held more than [`Options::max_pinned_bytes`](crate::Options::max_pinned_bytes) bytes, or the log was
    /// full and needed the space, and does not hold anything any more. Never undone.
    pub fn is_broken(&self) -> bool {
        self.held().is_none_or(|p| p.broken)
    }

    /// Moves it on to `lsn`, the start or the end of a durable record. What lies below may be
    /// dropped from then on: the front follows in the background, as far as
    /// [`Log::truncate_front`] was asked for. Within an atomic append the front stays at its start.
    /// Below the place where it is nothing happens.
    ///
    /// [`Error::Truncated`] if it is broken and `lsn` below the front; else the errors of
    /// [`Log::pin`]. After an error it is where it was.
    pub fn advance(&self, lsn: Lsn) -> Result<()> {
        let shared = &self.shared;
        shared.check_process()?;
        match self.held() {
            Some(p) if p.broken => {
                return Err(Error::Truncated {
                    lsn: p.at,
                    front: shared.front().max(shared.pins.wanted()),
                });
            }
            Some(p) if lsn <= p.at => return Ok(()),
            _ => {}
        }
        let whole = can_be_front(shared, lsn)?;
        {
            let mut table = shared.pins.table();
            let Some(pin) = table.pins.get_mut(&self.id) else {
                return Ok(());
            };
            // Another thread may have advanced it further meanwhile.
            pin.at = pin.at.max(lsn);
            if whole {
                pin.hold = pin.hold.max(lsn);
            }
            table.due = table.due || table.wanted > shared.front();
            if !table.due {
                return Ok(());
            }
        }
        if !planted!("wake-prepare-on-advance") {
            shared.prepare.ring(&*shared.runtime);
        }
        Ok(())
    }

    fn held(&self) -> Option<Held> {
        self.shared.pins.table().pins.get(&self.id).copied()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let shared = &self.shared;
        // The child of a fork: it has no preparing thread, and the mutex may be held for ever.
        if shared.check_process().is_err() {
            return;
        }
        let due = {
            let mut table = shared.pins.table();
            table.pins.remove(&self.id);
            table.due |= table.wanted > shared.front();
            table.due
        };
        if due && !planted!("wake-prepare-on-unpin") {
            shared.prepare.ring(&*shared.runtime);
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
