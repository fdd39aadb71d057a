//! Pins, and the front that they hold back.

use crate::sync::runtime_mutex::{RuntimeMutex, RuntimeMutexGuard};
use logforce_device::Runtime;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// A pin's state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// What its owner asked for.
    pub(crate) at: Lsn,
    /// The last such position that can be the front: not in the middle of an atomic append.
    hold: Lsn,
    /// It holds nothing any more.
    pub(crate) broken: bool,
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

    /// Breaks the pins that would be kept back more than `limit` bytes below the wanted front.
    fn enforce(&mut self, limit: u64) {
        let wanted = self.wanted.0;
        for pin in self.pins.values_mut() {
            if !pin.broken && wanted.saturating_sub(pin.hold.0) > limit {
                pin.broken = true;
                self.due = true;
            }
        }
    }
}

/// All pins of a log, and the front that they hold back.
pub(crate) struct PinTable {
    table: Mutex<Table>,
    /// One move of the front at a time: a pin is refused below the one under way only.
    turn: RuntimeMutex,
    limit: u64,
}

/// Where a move of the front may go.
pub(crate) struct Move<'a> {
    pins: &'a PinTable,
    pub(crate) to: Lsn,
    /// A pin holds it there, below what was asked for.
    pub(crate) is_held: bool,
    _turn: RuntimeMutexGuard<'a>,
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.pins.table().moving_to = Lsn::ORIGIN;
    }
}

impl PinTable {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, front: Lsn, limit: u64) -> PinTable {
        let table = Table {
            wanted: front,
            ..Table::default()
        };
        PinTable {
            table: Mutex::new(table),
            turn: RuntimeMutex::new(runtime),
            limit,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of whoever moves the front, and of what must not come in between.
    pub(crate) fn turn(&self) -> RuntimeMutexGuard<'_> {
        self.turn.lock()
    }

    /// Begins to move the front, as far as it is wanted and no pin holds it. No pin is given out
    /// below until the move ends.
    pub(crate) fn begin_move(&self) -> Move<'_> {
        let turn = self.turn.lock();
        let mut table = self.table();
        let to = table.oldest().unwrap_or(table.wanted).min(table.wanted);
        table.moving_to = to;
        Move {
            pins: self,
            to,
            is_held: to < table.wanted,
            _turn: turn,
        }
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
    pub(crate) fn break_oldest_pin(&self) -> bool {
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

    /// Whether the front may be able to move; asked by the preallocator, which moves it then.
    pub(crate) fn take_due(&self) -> bool {
        let mut table = self.table();
        table.enforce(self.limit);
        std::mem::take(&mut table.due)
    }

    /// Adds a pin at `lsn` and answers its number; or, below `front` and the front that is being
    /// moved to, what the least is.
    pub(crate) fn add(&self, lsn: Lsn, front: impl FnOnce() -> Lsn) -> Result<u64, Lsn> {
        let mut table = self.table();
        let least = front().max(table.moving_to);
        if lsn < least {
            return Err(least);
        }
        let id = table.next;
        table.next += 1;
        let held = Held {
            at: lsn,
            hold: lsn,
            broken: false,
        };
        table.pins.insert(id, held);
        Ok(id)
    }

    /// The state of a pin.
    pub(crate) fn get(&self, id: u64) -> Option<Held> {
        self.table().pins.get(&id).copied()
    }

    /// Moves a pin on to `lsn`, where the front can be if `can_be_front`. Answers whether the front
    /// may move now.
    pub(crate) fn advance(
        &self,
        id: u64,
        lsn: Lsn,
        can_be_front: bool,
        front: impl FnOnce() -> Lsn,
    ) -> bool {
        let mut table = self.table();
        let Some(pin) = table.pins.get_mut(&id) else {
            return false;
        };
        // Another thread may have advanced it further meanwhile.
        pin.at = pin.at.max(lsn);
        if can_be_front {
            pin.hold = pin.hold.max(lsn);
        }
        table.due = table.due || table.wanted > front();
        table.due
    }

    /// Removes a pin. Answers whether the front may move now.
    pub(crate) fn remove(&self, id: u64, front: impl FnOnce() -> Lsn) -> bool {
        let mut table = self.table();
        table.pins.remove(&id);
        table.due |= table.wanted > front();
        table.due
    }
}
