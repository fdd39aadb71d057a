//! Reclamation of places: when a freed place may be used again.
//!
//! Stored headers are numbered, and each refers to a set of places. A header is held by the slot that
//! contains it, and by each view of its state or of commits on top of that. A freed place can be used again
//! once no held header refers to it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Place that the headers `born..until` refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Freed {
    place: u64,
    born: u64,
    until: u64,
}

/// Held headers, and the places that wait for them.
#[derive(Debug, Default)]
pub(crate) struct HeldHeaders {
    /// Number of holds of each header.
    held: BTreeMap<u64, usize>,
    /// Freed places that are not free yet, each listed under a held header that refers to it.
    waiting: BTreeMap<u64, Vec<Freed>>,
    /// First header that refers to each place in use. A place that is not in the map was in use before all
    /// held headers but the newest. So a view that is held for long keeps only what it shows, and not
    /// everything that is written and freed meanwhile.
    born: HashMap<u64, u64>,
    /// Places in `born`, by header, oldest first.
    births: VecDeque<(u64, Vec<u64>)>,
}

impl HeldHeaders {
    /// Holds a header.
    pub(crate) fn hold(&mut self, header: u64) {
        *self.held.entry(header).or_default() += 1;
    }

    /// Ends one hold of a header. Calls `free` for each place that is free now.
    pub(crate) fn release(&mut self, header: u64, mut free: impl FnMut(u64)) {
        match self.held.get_mut(&header) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.held.remove(&header);
                for freed in self.waiting.remove(&header).unwrap_or_default() {
                    self.free_or_keep(freed, &mut free);
                }
                self.forget_births();
            }
        }
    }

    /// Returns the oldest held header.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.held.first_key_value().map(|(header, _)| *header)
    }

    /// Records that places came into use with this header.
    pub(crate) fn note_births(&mut self, header: u64, places: impl Iterator<Item = u64>) {
        // The previous header is always held: by the older slot, and by views that begin now. Older headers
        // are held only by views.
        if self.oldest().is_some_and(|oldest| oldest + 1 < header) {
            let places: Vec<u64> = places.collect();
            self.born.extend(places.iter().map(|p| (*p, header)));
            self.births.push_back((header, places));
        }
    }

    /// Records that the header `until` no longer refers to the place. Calls `free` once no held header does.
    pub(crate) fn retire(&mut self, place: u64, until: u64, mut free: impl FnMut(u64)) {
        let born = self.born.get(&place).copied().unwrap_or(0);
        self.free_or_keep(Freed { place, born, until }, &mut free);
    }

    /// Returns true if places wait for the header, and only one slot holds it.
    pub(crate) fn is_waited_for(&self, header: u64) -> bool {
        self.held.get(&header) == Some(&1) && self.waiting.contains_key(&header)
    }

    /// Returns the number of waiting places.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    fn free_or_keep(&mut self, freed: Freed, free: &mut impl FnMut(u64)) {
        // Waits for the newest of them, because views come and go and release it first.
        let reached_by = self.held.range(freed.born..freed.until).next_back();
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
                // The place may have come into use again since.
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

    fn release(headers: &mut HeldHeaders, header: u64) -> Vec<u64> {
        let mut free = Vec::new();
        headers.release(header, |p| free.push(p));
        free
    }

    fn retire(headers: &mut HeldHeaders, place: u64, until: u64) -> Vec<u64> {
        let mut free = Vec::new();
        headers.retire(place, until, |p| free.push(p));
        free
    }

    #[test]
    fn a_place_waits_for_all_that_reach_it() {
        let mut headers = HeldHeaders::default();
        for header in [3, 3, 4, 5] {
            headers.hold(header);
        }
        assert_eq!(retire(&mut headers, 70, 5), []);
        assert_eq!(retire(&mut headers, 71, 4), []);
        assert_eq!(release(&mut headers, 5), []);
        assert_eq!(release(&mut headers, 4), []);
        assert_eq!(release(&mut headers, 3), []);
        assert_eq!(headers.waiting(), 2);
        assert_eq!(release(&mut headers, 3), [71, 70]);
        assert_eq!(retire(&mut headers, 72, 9), [72]);
        assert_eq!(headers.waiting(), 0);
    }

    #[test]
    fn a_view_does_not_keep_what_is_younger() {
        let mut headers = HeldHeaders::default();
        headers.hold(1);
        headers.hold(5);
        headers.note_births(6, [80, 81].into_iter());
        headers.hold(6);
        assert_eq!(release(&mut headers, 5), []);
        // Header 6 refers to it, header 1 does not.
        assert_eq!(retire(&mut headers, 80, 7), []);
        assert_eq!(release(&mut headers, 6), [80]);
        // It was in use before, so header 1 refers to it.
        assert_eq!(retire(&mut headers, 82, 8), []);
        assert_eq!(retire(&mut headers, 81, 8), [81]);
        assert_eq!(release(&mut headers, 1), [82]);
        assert!(headers.born.is_empty() && headers.births.is_empty());
    }
}
