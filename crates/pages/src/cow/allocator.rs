//! Allocator of the places of a copy-on-write file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free places of the file, and the end of its places.
///
/// Places are handed out by whole *granules*. A granule is the number of places that the device may tear at
/// once. So a page that is smaller never shares its granule with a later write. Otherwise a power cut during
/// the later write could tear a page that is not part of it.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Number of places of a granule.
    granule: u64,
    /// Exclusive end of the places in use.
    end: u64,
    /// Free runs below the end: the first place and the number of places. No run touches another one or the
    /// end.
    free: BTreeMap<u64, u64>,
    /// The same runs, by their number of whole granules. Runs without a whole granule are left out.
    by_granules: BTreeSet<(u64, u64)>,
    /// Number of free places.
    count: u64,
    /// Number of free places that lie in whole granules.
    usable: u64,
}

impl Allocator {
    /// Creates an allocator in which all places below `end` are in use. A granule is `granule` places, a
    /// power of two.
    pub(crate) fn new(granule: u64, end: u64) -> Self {
        Allocator {
            granule: granule.max(1),
            end,
            free: BTreeMap::new(),
            by_granules: BTreeSet::new(),
            count: 0,
            usable: 0,
        }
    }

    /// Returns the exclusive end of the places in use.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of places of a granule.
    pub(crate) fn granule(&self) -> u64 {
        self.granule
    }

    /// Returns the number of places behind the end and below `written` that can be handed out.
    fn behind(&self, written: u64) -> u64 {
        let written = written / self.granule * self.granule;
        written.saturating_sub(self.end.next_multiple_of(self.granule))
    }

    /// Returns the end that a file of `written` places needs, so that it covers all places in use and
    /// `reserve` places can be handed out.
    pub(crate) fn end_for(&self, reserve: u64, written: u64) -> u64 {
        let missing = reserve.saturating_sub(self.usable + self.behind(written));
        match missing {
            0 => self.end,
            _ => {
                let written = self.end.max(written).next_multiple_of(self.granule);
                written.saturating_add(missing.next_multiple_of(self.granule))
            }
        }
    }

    /// Returns the number of free places below the end.
    #[cfg(test)]
    fn free_count(&self) -> u64 {
        self.count
    }

    /// Returns the whole granules in a run.
    fn granules(&self, start: u64, len: u64) -> Range<u64> {
        let first = start.next_multiple_of(self.granule);
        let end = (start + len) / self.granule * self.granule;
        first..end.max(first)
    }

    fn insert(&mut self, start: u64, len: u64) {
        let granules = self.granules(start, len);
        if !granules.is_empty() {
            let count = (granules.end - granules.start) / self.granule;
            self.by_granules.insert((count, start));
        }
        self.usable += granules.end - granules.start;
        self.free.insert(start, len);
        self.count += len;
    }

    fn remove(&mut self, start: u64) -> u64 {
        let Some(len) = self.free.remove(&start) else {
            return 0;
        };
        let granules = self.granules(start, len);
        let count = (granules.end - granules.start) / self.granule;
        self.by_granules.remove(&(count, start));
        self.usable -= granules.end - granules.start;
        self.count -= len;
        len
    }

    /// Frees places. None of them may be free already.
    pub(crate) fn free(&mut self, places: Range<u64>) {
        if places.is_empty() {
            return;
        }
        let (mut start, mut end) = (places.start, places.end);
        let before = self.free.range(..start).next_back().map(|(s, l)| (*s, *l));
        debug_assert!(before.is_none_or(|(s, l)| s + l <= start), "freed twice");
        if let Some((s, l)) = before
            && s + l == start
        {
            self.remove(s);
            start = s;
        }
        debug_assert!(end <= self.end, "a place beyond the end");
        let after = self.free.range(places.start..).next().map(|(s, _)| *s);
        debug_assert!(after.is_none_or(|s| s >= end), "freed twice");
        if after == Some(end) {
            end += self.remove(end);
        }
        if end == self.end {
            // Places behind the end are written as if they were new. The file keeps its length.
            self.end = start;
        } else {
            self.insert(start, end - start);
        }
    }

    /// Takes `count` places, in ascending order. Prefers one free run: the shortest that is long enough.
    ///
    /// Without such a run, the file grows if less than a third of it is free, because one long write is
    /// cheaper than many short ones. Otherwise the longest runs are taken. So the file stays within one and a
    /// half times the places in use (including those that wait for readers).
    pub(crate) fn take(&mut self, count: u64) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        let mut left = count;
        while left > 0 {
            let wanted = left.div_ceil(self.granule);
            let fits = self.by_granules.range((wanted, 0)..).next();
            let in_use = self.end - self.count;
            let run = match fits {
                Some(run) => Some(*run),
                None if self.count < in_use / 2 => None,
                None => self.by_granules.last().copied(),
            };
            let (granules, len) = match run {
                Some((granules, start)) => (granules, self.take_from(start, granules.min(wanted))),
                None => (wanted, self.grow(wanted)),
            };
            debug_assert!(granules > 0);
            let used = len.start..len.end.min(len.start + left);
            left -= used.end - used.start;
            // The rest of the last granule is not handed out before the whole granule is free.
            self.free(used.end..len.end);
            taken.push(used);
        }
        taken.sort_unstable_by_key(|run| run.start);
        taken
    }

    /// Takes up to `count` places, rounded up to whole granules, from the longest free run. Without a run it
    /// takes them from behind the end and below `written`. Returns `None` without either.
    pub(crate) fn take_run(&mut self, count: u64, written: u64) -> Option<Range<u64>> {
        let wanted = count.div_ceil(self.granule);
        if let Some((granules, start)) = self.by_granules.last().copied() {
            return Some(self.take_from(start, granules.min(wanted)));
        }
        match (self.behind(written) / self.granule).min(wanted) {
            0 => None,
            granules => Some(self.grow(granules)),
        }
    }

    /// Returns the free runs below the end.
    pub(crate) fn free_runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.free.iter().map(|(start, len)| *start..start + len)
    }

    /// Takes the first whole granules of a free run.
    fn take_from(&mut self, start: u64, granules: u64) -> Range<u64> {
        let len = self.remove(start);
        let first = self.granules(start, len).start;
        let taken = first..first + granules * self.granule;
        if start < taken.start {
            self.insert(start, taken.start - start);
        }
        if taken.end < start + len {
            self.insert(taken.end, start + len - taken.end);
        }
        taken
    }

    /// Takes granules behind the end.
    pub(crate) fn grow(&mut self, granules: u64) -> Range<u64> {
        let first = self.end.next_multiple_of(self.granule);
        let skipped = self.end..first;
        self.end = first + granules * self.granule;
        self.free(skipped);
        first..self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(places: &[Range<u64>]) -> Vec<u64> {
        places.iter().cloned().flatten().collect()
    }

    #[test]
    fn a_run_that_fits_comes_first() {
        let mut places = Allocator::new(1, 100);
        places.free(10..20);
        places.free(40..43);
        places.free(60..64);
        assert_eq!(places.take(3), vec![40..43]);
        assert_eq!(places.take(4), vec![60..64]);
        assert_eq!(places.take(4), vec![10..14]);
        // Little is free, so the file grows and the write is not scattered.
        assert_eq!(places.take(7), vec![100..107]);
        assert_eq!((places.end(), places.free_count()), (107, 6));
        places.free(100..107);
        assert_eq!(places.end(), 100);
    }

    #[test]
    fn neighbours_are_one_run() {
        let mut places = Allocator::new(1, 100);
        places.free(10..20);
        places.free(30..40);
        places.free(20..30);
        assert_eq!(places.take(30), vec![10..40]);
        assert_eq!(places.free_count(), 0);
    }

    #[test]
    fn a_file_that_is_mostly_free_does_not_grow() {
        let mut places = Allocator::new(1, 100);
        for n in 0..50 {
            places.free(2 * n..2 * n + 1);
        }
        assert_eq!(places.take(10).len(), 10);
        assert_eq!(places.end(), 100);
    }

    #[test]
    fn a_granule_is_handed_out_as_a_whole_or_not_at_all() {
        let mut places = Allocator::new(8, 0);
        assert_eq!(places.take(3), vec![0..3]);
        // The rest of the granule is behind the end. The next run does not begin inside a granule.
        assert_eq!(places.take(3), vec![8..11]);
        assert_eq!(places.take(20), vec![16..36]);
        places.free(16..17);
        places.free(20..30);
        // 24..30 is not a whole granule.
        assert_eq!(places.take(8), vec![40..48]);
        places.free(17..20);
        assert_eq!(places.take(8), vec![16..24]);
    }

    /// Compares with a set of places: none is handed out twice, none is lost, and the granules hold.
    #[test]
    fn random_use_loses_nothing() {
        let mut bits = 7u64;
        let mut random = move |below: u64| {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1);
            (bits >> 33) % below
        };
        for granule in [1, 2, 8] {
            let mut places = Allocator::new(granule, 0);
            let mut used = BTreeSet::new();
            for _ in 0..3000 {
                if random(2) == 0 {
                    let count = random(20) + 1;
                    let before = used.clone();
                    let taken = whole(&places.take(count));
                    assert_eq!(taken.len() as u64, count);
                    assert!(taken.is_sorted());
                    for place in taken {
                        let first = place / granule * granule;
                        let mut shared = before.range(first..first + granule);
                        assert_eq!(shared.next(), None, "a granule in use");
                        assert!(used.insert(place), "handed out twice");
                    }
                } else {
                    for _ in 0..random(25) {
                        let nth = random(used.len().max(1) as u64) as usize;
                        if let Some(place) = used.iter().nth(nth).copied() {
                            used.remove(&place);
                            places.free(place..place + 1);
                        }
                    }
                }
                assert_eq!(places.end() - places.free_count(), used.len() as u64);
                assert!(used.last().is_none_or(|last| *last < places.end()));
                assert!(places.count <= places.end());
            }
        }
    }
}
