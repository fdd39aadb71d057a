//! Void ranges of a log, in memory.

use logforce_format::Lsn;
use std::collections::BTreeMap;

/// The void ranges of a log: the end of each range by its start. The ranges are disjoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Voids {
    ranges: BTreeMap<Lsn, Lsn>,
}

impl Voids {
    /// Adds `[from, to)` and merges it with the ranges that it touches. The time depends on the number of
    /// touched ranges, not on the total number.
    pub(crate) fn add(&mut self, mut from: Lsn, mut to: Lsn) {
        if from >= to {
            return;
        }
        while let Some((&a, &b)) = self
            .ranges
            .range(..=to)
            .next_back()
            .filter(|r| *r.1 >= from)
        {
            self.ranges.remove(&a);
            from = from.min(a);
            to = to.max(b);
        }
        self.ranges.insert(from, to);
    }

    /// Returns the range that contains `lsn`.
    pub(crate) fn covering(&self, lsn: Lsn) -> Option<(Lsn, Lsn)> {
        let (&from, &to) = self.ranges.range(..=lsn).next_back()?;
        (lsn < to).then_some((from, to))
    }

    /// Copies the ranges that contain a part of `[from, to)`, for a reader that must not hold a lock.
    pub(crate) fn within(&self, from: Lsn, to: Lsn) -> Voids {
        let first = self.covering(from);
        let above = self.ranges.range(from..to.max(from));
        Voids {
            ranges: first
                .into_iter()
                .chain(above.map(|(&a, &b)| (a, b)))
                .collect(),
        }
    }

    /// Returns true if a range begins at `lsn`.
    pub(crate) fn begins(&self, lsn: Lsn) -> bool {
        self.ranges.contains_key(&lsn)
    }

    /// Returns true if a range ends above `from` and below `to`.
    pub(crate) fn ends_within(&self, from: Lsn, to: Lsn) -> bool {
        let below = self.ranges.range(..to).rev();
        let mut ends = below.map(|(_, end)| *end).take_while(|end| *end > from);
        ends.any(|end| end < to)
    }

    /// Drops ranges that end at or below `front`.
    pub(crate) fn drop_below(&mut self, front: Lsn) {
        self.ranges.retain(|_, to| *to > front);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_and_finds() {
        let mut v = Voids::default();
        v.add(Lsn(10), Lsn(20));
        v.add(Lsn(40), Lsn(50));
        v.add(Lsn(5), Lsn(6));
        assert_eq!(v.covering(Lsn(10)), Some((Lsn(10), Lsn(20))));
        assert_eq!(v.covering(Lsn(20)), None);
        assert_eq!(v.covering(Lsn(9)), None);
        v.add(Lsn(15), Lsn(45));
        assert_eq!(v.covering(Lsn(30)), Some((Lsn(10), Lsn(50))));
        assert_eq!(v.ranges.len(), 2);
        assert_eq!(v.within(Lsn(5), Lsn(10)).ranges.len(), 1);
        assert_eq!(
            v.within(Lsn(30), Lsn(31)).covering(Lsn(49)),
            Some((Lsn(10), Lsn(50)))
        );
        assert!(v.within(Lsn(50), Lsn(60)).ranges.is_empty());
        // The range that begins last may end behind `to`, and the one before it within.
        assert!(v.ends_within(Lsn(4), Lsn(12)) && !v.ends_within(Lsn(6), Lsn(12)));
        let ends = [(10, 50), (50, 60), (49, 51), (9, 51), (51, 90), (5, 7)];
        let ends = ends.map(|(from, to)| v.ends_within(Lsn(from), Lsn(to)));
        assert_eq!(ends, [false, false, true, true, false, true]);
        v.drop_below(Lsn(6));
        assert_eq!(v.ranges.len(), 1);
        v.add(Lsn(9), Lsn(9));
        assert_eq!(v.ranges.len(), 1);
    }
}
