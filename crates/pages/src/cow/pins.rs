//! When a place that was freed may be used again.
//!
//! The headers that are stored are numbered; each reaches a set of places. A header is pinned by the
//! slot that still holds it, and by each view of its state or of what was committed on top of that. A
//! place that was freed is free once no pinned header reaches it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A place that the headers `born..until` reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Freed {
    place: u64,
    born: u64,
    until: u64,
}

/// The pinned headers, and the places that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How often each header is pinned.
    pinned: BTreeMap<u64, usize>,
    /// The freed places that are not free yet, each with a pinned header that reaches it.
    waiting: BTreeMap<u64, Vec<Freed>>,
    /// Of places in use, the first header that reaches them. A place that is not here was in use before
    /// all pinned headers but the newest. So a view that is held for long keeps what it shows, and not
    /// everything that is written and freed meanwhile.
    born: HashMap<u64, u64>,
    /// The places in `born`, by header, oldest first.
    births: VecDeque<(u64, Vec<u64>)>,
}

impl Pins {
    /// Pins a header.
    pub(crate) fn pin(&mut self, header: u64) {
        *self.pinned.entry(header).or_default() += 1;
    }

    /// Ends one pin of a header; gives the places that are free now to `free`.
    pub(crate) fn unpin(&mut self, header: u64, mut free: impl FnMut(u64)) {
        match self.pinned.get_mut(&header) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.pinned.remove(&header);
                for freed in self.waiting.remove(&header).unwrap_or_default() {
                    self.free_or_keep(freed, &mut free);
                }
                self.forget_births();
            }
        }
    }

    /// The oldest pinned header.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.pinned.first_key_value().map(|(header, _)| *header)
    }

    /// Places came into use with this header.
    pub(crate) fn note_births(&mut self, header: u64, places: impl Iterator<Item = u64>) {
        // The older header slot and what begins now pin the header before; anything older is a
        // view that is held.
        if self.oldest().is_some_and(|oldest| oldest + 1 < header) {
            let places: Vec<u64> = places.collect();
            self.born.extend(places.iter().map(|p| (*p, header)));
            self.births.push_back((header, places));
        }
    }

    /// The header `until` no longer reaches the place: `free` gets it once no pinned one does.
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
        match reached_by.map(|(header, _)| *header) {
            Some(header) => self.waiting.entry(header).or_default().push(freed),
            None => free(freed.place),
        }
    }

    fn forget_births(&mut self) {
        let oldest = self.oldest().unwrap_or(u64::MAX);
        while let Some((header, _)) = self.births.front()
            && *header <= oldest
        {
            let Some((header, places)) = self.births.pop_front() else {
                return;
            };
            for place in places {
                // It may have come into use again since.
                if self.born.get(&place) == Some(&header) {
                    self.born.remove(&place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpin(pins: &mut Pins, header: u64) -> Vec<u64> {
        let mut free = Vec::new();
        pins.unpin(header, |p| free.push(p));
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
        for header in [3, 3, 4, 5] {
            pins.pin(header);
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
