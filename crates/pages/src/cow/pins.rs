//! When a place that was freed may be used again.
//!
//! Each header that is stored begins a *generation*: a set of places that it reaches. A generation is
//! pinned by the header slot that still holds it, and by each view of it or of what was committed on
//! top of it. A place that was freed is free once no pinned generation reaches it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A place that is reached by the generations `born..until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Freed {
    place: u64,
    born: u64,
    until: u64,
}

/// The pinned generations, and the places that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How often each generation is pinned.
    pinned: BTreeMap<u64, usize>,
    /// The freed places that are not free yet, each with a pinned generation that reaches it.
    waiting: BTreeMap<u64, Vec<Freed>>,
    /// The generation in which places came into use; a place that is not here: before all pinned ones
    /// but the newest. It makes a view that is held for long keep what it shows, and not everything
    /// that is written and freed while it is held.
    born: HashMap<u64, u64>,
    /// The places in `born`, by generation, oldest first.
    births: VecDeque<(u64, Vec<u64>)>,
}

impl Pins {
    /// Pins a generation.
    pub(crate) fn pin(&mut self, generation: u64) {
        *self.pinned.entry(generation).or_default() += 1;
    }

    /// Ends one pin of a generation; gives the places that are free now to `free`.
    pub(crate) fn unpin(&mut self, generation: u64, mut free: impl FnMut(u64)) {
        match self.pinned.get_mut(&generation) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.pinned.remove(&generation);
                for freed in self.waiting.remove(&generation).unwrap_or_default() {
                    self.free_or_keep(freed, &mut free);
                }
                self.forget_births();
            }
        }
    }

    /// The oldest pinned generation.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.pinned
            .first_key_value()
            .map(|(generation, _)| *generation)
    }

    /// A place came into use in this generation.
    pub(crate) fn note_births(&mut self, generation: u64, places: impl Iterator<Item = u64>) {
        // The older header slot and what begins now pin the generation before; anything older is a
        // view that is held.
        if self.oldest().is_some_and(|oldest| oldest + 1 < generation) {
            let places: Vec<u64> = places.collect();
            self.born.extend(places.iter().map(|p| (*p, generation)));
            self.births.push_back((generation, places));
        }
    }

    /// The generation `until` no longer reaches the place: `free` gets it once no pinned one does.
    pub(crate) fn retire(&mut self, place: u64, until: u64, mut free: impl FnMut(u64)) {
        let born = self.born.get(&place).copied().unwrap_or(0);
        self.free_or_keep(Freed { place, born, until }, &mut free);
    }

    /// How many places wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    fn free_or_keep(&mut self, freed: Freed, free: &mut impl FnMut(u64)) {
        // The newest of them: with the views that come and go it is gone soonest.
        let reached_by = self.pinned.range(freed.born..freed.until).next_back();
        match reached_by.map(|(generation, _)| *generation) {
            Some(generation) => self.waiting.entry(generation).or_default().push(freed),
            None => free(freed.place),
        }
    }

    fn forget_births(&mut self) {
        let oldest = self.oldest().unwrap_or(u64::MAX);
        while let Some((generation, _)) = self.births.front()
            && *generation <= oldest
        {
            let Some((generation, places)) = self.births.pop_front() else {
                return;
            };
            for place in places {
                // It may have come into use again since.
                if self.born.get(&place) == Some(&generation) {
                    self.born.remove(&place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpin(pins: &mut Pins, generation: u64) -> Vec<u64> {
        let mut free = Vec::new();
        pins.unpin(generation, |p| free.push(p));
        free
    }

    fn retire(pins: &mut Pins, place: u64, until: u64) -> Vec<u64> {
        let mut free = Vec::new();
        pins.retire(place, until, |p| free.push(p));
        free
    }

    #[test]
    fn a_place_waits_for_all_that_reach_it() {
        let mut pins = Pins::default();
        for generation in [3, 3, 4, 5] {
            pins.pin(generation);
        }
        assert_eq!(retire(&mut pins, 70, 5), []);
        assert_eq!(retire(&mut pins, 71, 4), []);
        assert_eq!(unpin(&mut pins, 5), []);
        assert_eq!(unpin(&mut pins, 4), []);
        assert_eq!(unpin(&mut pins, 3), []);
        assert_eq!(pins.waiting(), 2);
        assert_eq!(unpin(&mut pins, 3), [71, 70]);
        assert_eq!(retire(&mut pins, 72, 9), [72]);
        assert_eq!(pins.waiting(), 0);
    }

    #[test]
    fn a_view_does_not_keep_what_is_younger() {
        let mut pins = Pins::default();
        pins.pin(1);
        pins.pin(5);
        pins.note_births(6, [80, 81].into_iter());
        pins.pin(6);
        assert_eq!(unpin(&mut pins, 5), []);
        // Reached by 6 and not by 1.
        assert_eq!(retire(&mut pins, 80, 7), []);
        assert_eq!(unpin(&mut pins, 6), [80]);
        // Of before: reached by 1.
        assert_eq!(retire(&mut pins, 82, 8), []);
        assert_eq!(retire(&mut pins, 81, 8), [81]);
        assert_eq!(unpin(&mut pins, 1), [82]);
        assert!(pins.born.is_empty() && pins.births.is_empty());
    }
}
