//! The table of pins, which limits how far the front may move.

use logforce_commit::sync::runtime_mutex::{RuntimeMutex, RuntimeMutexGuard};
use logforce_device::Runtime;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// State of a pin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinState {
    /// Position that its owner set last.
    pub(crate) at: Lsn,
    /// Its last position that can be the front: one that does not lie within an atomic append.
    holds_at: Lsn,
    /// The pin no longer holds the front.
    pub(crate) broken: bool,
}

#[derive(Default)]
struct Table {
    next: u64,
    pins: BTreeMap<u64, PinState>,
    /// Highest front that a truncation has requested.
    requested: Lsn,
    /// Target of a move of the front in progress: a new pin below it is refused.
    moving_to: Lsn,
    /// A pin that held the front has advanced, was broken or dropped: the front may move.
    due: bool,
}

impl Table {
    fn oldest(&self) -> Option<Lsn> {
        let holding = self.pins.values().filter(|p| !p.broken);
        holding.map(|p| p.holds_at).min()
    }

    /// Adds a pin, and returns its number.
    fn add(&mut self, at: Lsn) -> u64 {
        let id = self.next;
        self.next += 1;
        let state = PinState {
            at,
            holds_at: at,
            broken: false,
        };
        self.pins.insert(id, state);
        id
    }

    /// Breaks the pins that lie more than `limit` bytes below the requested front.
    fn enforce(&mut self, limit: u64) {
        let requested = self.requested.0;
        for pin in self.pins.values_mut() {
            if !pin.broken && requested.saturating_sub(pin.holds_at.0) > limit {
                pin.broken = true;
                self.due = true;
            }
        }
    }
}

/// All pins of a log, and the front that was requested.
pub(crate) struct PinTable {
    table: Mutex<Table>,
    /// Serializes moves of the front. A new pin is checked against the move in progress.
    turn: RuntimeMutex,
    limit: u64,
}

/// A move of the front in progress.
pub(crate) struct Move<'a> {
    pins: &'a PinTable,
    pub(crate) to: Lsn,
    /// A pin holds the front at `to`, below the requested front.
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
            requested: front,
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

    /// Begins a move of the front, to the requested front or to the oldest pin if that is lower. Until the
    /// move ends, new pins below the target are refused.
    pub(crate) fn begin_move(&self) -> Move<'_> {
        let turn = self.turn.lock();
        let mut table = self.table();
        let to = table
            .oldest()
            .unwrap_or(table.requested)
            .min(table.requested);
        table.moving_to = to;
        Move {
            pins: self,
            to,
            is_held: to < table.requested,
            _turn: turn,
        }
    }

    /// Returns the highest front that was requested, reached or not.
    pub(crate) fn requested(&self) -> Lsn {
        self.table().requested
    }

    /// Requests a front, and breaks the pins that are too far behind it.
    pub(crate) fn request(&self, front: Lsn) {
        let mut table = self.table();
        table.requested = table.requested.max(front);
        table.enforce(self.limit);
        // The caller moves the front.
        table.due = false;
    }

    /// Breaks the pins at the oldest position, if they hold the front, to free space. Returns false if no
    /// pin holds the front.
    pub(crate) fn break_oldest_pin(&self) -> bool {
        let mut table = self.table();
        let Some(oldest) = table.oldest().filter(|o| *o < table.requested) else {
            return false;
        };
        for pin in table.pins.values_mut() {
            pin.broken |= pin.holds_at == oldest;
        }
        table.due = true;
        true
    }

    /// Returns true if the front may be able to move, and resets that flag. The caller, the preallocator,
    /// then moves the front.
    pub(crate) fn take_due(&self) -> bool {
        let mut table = self.table();
        table.enforce(self.limit);
        std::mem::take(&mut table.due)
    }

    /// Adds a pin at `lsn` and returns its number. Below `front`, or below the target of a move in
    /// progress, it returns the lowest possible position as the error.
    pub(crate) fn add(&self, lsn: Lsn, front: impl FnOnce() -> Lsn) -> Result<u64, Lsn> {
        let mut table = self.table();
        let least = front().max(table.moving_to);
        if lsn < least {
            return Err(least);
        }
        Ok(table.add(lsn))
    }

    /// Adds a pin at the front, once no move of the front is in progress. Returns its number and
    /// position.
    pub(crate) fn add_at_front(&self, front: impl Fn() -> Lsn) -> (u64, Lsn) {
        let _no_moves = self.turn.lock();
        let at = front();
        (self.table().add(at), at)
    }

    /// Notes that the front may move if a higher one was requested than it has reached. Returns true then.
    pub(crate) fn note_due(&self, front: impl FnOnce() -> Lsn) -> bool {
        let mut table = self.table();
        table.due |= table.requested > front();
        table.due
    }

    /// Returns the state of a pin.
    pub(crate) fn get(&self, id: u64) -> Option<PinState> {
        self.table().pins.get(&id).copied()
    }

    /// Advances a pin to `lsn`. `can_be_front`: the front may be at `lsn`. Returns true if the front may
    /// move now.
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
            pin.holds_at = pin.holds_at.max(lsn);
        }
        table.due = table.due || table.requested > front();
        table.due
    }

    /// Removes a pin. Returns true if the front may move now.
    pub(crate) fn remove(&self, id: u64, front: impl FnOnce() -> Lsn) -> bool {
        let mut table = self.table();
        table.pins.remove(&id);
        table.due |= table.requested > front();
        table.due
    }
}
