//! Standing holds: holds of committed states that new views share, one of each kind for each lane of threads.
//! So threads that begin and end to read wait neither for each other nor for commits.
//!
//! A standing hold serves new views until the states that they get change ([`StandingHolds::changed`]). Then
//! the next view of the lane makes a new one, with the state locked. Publishing a header and rolling back end
//! all standing holds. Otherwise a lane without readers would keep freed places.

use logforce_device::sync::{Apart, AtomicU64, Mutex, MutexGuard, lane};
use logforce_format::planted;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, PoisonError};

/// Number of lanes. Threads in different lanes read without contention.
pub(crate) const LANES: usize = 8;

/// State that a new view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Everything committed. A transaction may be built on it.
    Latest,
    Durable,
}

/// All lanes. Their mutexes come after the mutex of the state, and are held for a few instructions.
pub(crate) struct StandingHolds<T> {
    /// Number of times that the states for new views have changed. Changed with the state locked.
    turn: Apart<AtomicU64>,
    lanes: Vec<Apart<Mutex<Lane<T>>>>,
}

/// Holds of one lane, each with the turn in which it was made.
struct Lane<T> {
    latest: Option<(u64, Arc<T>)>,
    durable: Option<(u64, Arc<T>)>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane {
            latest: None,
            durable: None,
        }
    }
}

impl<T> Lane<T> {
    fn of(&mut self, wanted: Wanted) -> &mut Option<(u64, Arc<T>)> {
        match wanted {
            Wanted::Latest => &mut self.latest,
            Wanted::Durable => &mut self.durable,
        }
    }
}

impl<T> Default for StandingHolds<T> {
    fn default() -> Self {
        StandingHolds {
            turn: Apart::default(),
            lanes: (0..LANES).map(|_| Apart::default()).collect(),
        }
    }
}

impl<T> StandingHolds<T> {
    fn lane(&self, number: usize) -> MutexGuard<'_, Lane<T>> {
        let lane = self.lanes[number].lock();
        lane.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hold of the caller's lane, if it is of the state that a new view gets.
    pub(crate) fn get(&self, wanted: Wanted) -> Option<Arc<T>> {
        let mut lane = self.lane(lane(LANES));
        // A state is shown only after this number has changed. So no thread gets an older state than one of
        // which it has learned from another thread.
        let turn = self.turn.load(Acquire);
        let (made, hold) = lane.of(wanted).as_ref()?;
        let is_current = planted!("cow-standing-hold-outdated", true, else *made == turn);
        is_current.then(|| hold.clone())
    }

    /// Keeps a hold for later views of the caller's lane. Returns the one that it replaces. Call with the
    /// state locked.
    pub(crate) fn keep(&self, wanted: Wanted, hold: Arc<T>) -> Option<Arc<T>> {
        let turn = self.turn.load(Acquire);
        let mut lane = self.lane(lane(LANES));
        lane.of(wanted).replace((turn, hold)).map(|(_, old)| old)
    }

    /// Records that new views get another state, or an error. Call with the state locked.
    pub(crate) fn changed(&self) {
        self.turn.fetch_add(1, Release);
    }

    /// Ends all standing holds and returns them. Call with the state locked, after
    /// [`changed`](Self::changed).
    pub(crate) fn end(&self) -> Vec<Arc<T>> {
        let mut ended = Vec::new();
        if planted!("cow-standing-hold-kept") {
            return ended;
        }
        for number in 0..LANES {
            let Lane { latest, durable } = std::mem::take(&mut *self.lane(number));
            ended.extend(latest.into_iter().chain(durable).map(|(_, hold)| hold));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_shared_until_the_states_change() {
        let holds = StandingHolds::default();
        assert_eq!(holds.get(Wanted::Latest), None);
        assert_eq!(holds.keep(Wanted::Latest, Arc::new(1)), None);
        assert_eq!(holds.get(Wanted::Latest), Some(Arc::new(1)));
        assert_eq!(holds.get(Wanted::Durable), None, "another state");
        holds.changed();
        assert_eq!(holds.get(Wanted::Latest), None, "an older state");
        assert_eq!(holds.keep(Wanted::Latest, Arc::new(2)), Some(Arc::new(1)));
        assert_eq!(holds.get(Wanted::Latest), Some(Arc::new(2)));
    }

    #[test]
    fn ending_takes_the_holds_of_all_lanes() {
        let holds = StandingHolds::default();
        std::thread::scope(|scope| {
            for n in 0..2 * LANES {
                let holds = &holds;
                scope.spawn(move || holds.keep(Wanted::Durable, Arc::new(n)));
            }
        });
        let kept = holds.end().len();
        assert!((2..=LANES).contains(&kept), "{kept} lanes");
        assert_eq!(holds.end(), [], "they were taken");
    }
}
