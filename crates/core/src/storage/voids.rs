use logforce_format::Lsn;

/// The void ranges of a log, sorted and disjoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Voids {
    ranges: Vec<(Lsn, Lsn)>,
}

impl Voids {
    /// Adds `[from, to)`, and merges it with the ranges that it touches.
    pub(crate) fn add(&mut self, mut from: Lsn, mut to: Lsn) {
        if from >= to {
            return;
        }
        self.ranges.retain(|&(a, b)| {
            let apart = b < from || a > to;
            if !apart {
                from = from.min(a);
                to = to.max(b);
            }
            apart
        });
        let at = self.ranges.partition_point(|&(a, _)| a < from);
        self.ranges.insert(at, (from, to));
    }

    /// The range that contains `lsn`.
    pub(crate) fn covering(&self, lsn: Lsn) -> Option<(Lsn, Lsn)> {
        let at = self.ranges.partition_point(|&(a, _)| a <= lsn);
        let (from, to) = *self.ranges.get(at.checked_sub(1)?)?;
        (lsn < to).then_some((from, to))
    }

    /// Whether a range begins at `lsn`.
    pub(crate) fn begins(&self, lsn: Lsn) -> bool {
        self.covering(lsn).is_some_and(|(from, _)| from == lsn)
    }

    /// Drops ranges that end at or below `front`.
    pub(crate) fn drop_below(&mut self, front: Lsn) {
        self.ranges.retain(|&(_, to)| to > front);
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
        v.drop_below(Lsn(6));
        assert_eq!(v.ranges.len(), 1);
        v.add(Lsn(9), Lsn(9));
        assert_eq!(v.ranges.len(), 1);
    }
}
