//! Stretches of numbers of pages for which write-through or one barrier is cheaper.

use crate::run::{Ratio, Relation};

/// Consecutive numbers of pages with the same result.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Time of write-through compared with that of the barrier.
    pub relation: Relation,
    /// Numbers of pages in ascending order, each with its ratio.
    pub points: Vec<(u64, Ratio)>,
}

impl Stretch {
    /// Returns the first and the last number of pages.
    pub fn ends(&self) -> (u64, u64) {
        let of = |point: Option<&(u64, Ratio)>| point.map_or(0, |(pages, _)| *pages);
        (of(self.points.first()), of(self.points.last()))
    }

    /// Returns the ratio with the widest interval.
    pub fn widest(&self) -> Option<Ratio> {
        let width = |r: &Ratio| r.high / r.low.max(f64::MIN_POSITIVE);
        let ratios = self.points.iter().map(|(_, ratio)| *ratio);
        ratios.max_by(|a, b| width(a).total_cmp(&width(b)))
    }
}

/// Divides the numbers of pages into stretches. `points` holds, by ascending number of pages, the time of
/// write-through as a multiple of that of the barrier.
pub fn stretches(points: &[(u64, Ratio)]) -> Vec<Stretch> {
    let together = |a: &(u64, Ratio), b: &(u64, Ratio)| a.1.relation() == b.1.relation();
    let stretch = |points: &[(u64, Ratio)]| {
        let (_, first) = points.first()?;
        Some(Stretch {
            relation: first.relation(),
            points: points.to_vec(),
        })
    };
    points.chunk_by(together).filter_map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Relation::{Less, More, Same, Unclear};

    fn points(ratios: &[(u64, f64, f64)]) -> Vec<(u64, Ratio)> {
        let ratio = |low: f64, high: f64| Ratio {
            figure: (low + high) / 2.0,
            low,
            high,
        };
        let of = |&(pages, low, high): &(u64, f64, f64)| (pages, ratio(low, high));
        ratios.iter().map(of).collect()
    }

    #[test]
    fn follows_the_figures() {
        for (ratios, wanted) in [
            (
                &[(1, 0.4, 0.6), (5, 0.9, 1.1), (10, 1.2, 1.4), (20, 2.0, 3.0)][..],
                &[(Less, 1, 1), (Same, 5, 5), (More, 10, 20)][..],
            ),
            (
                &[(1, 0.9, 1.1), (5, 1.1, 1.3)],
                &[(Same, 1, 1), (More, 5, 5)],
            ),
            (
                &[(1, 0.2, 0.3), (5, 0.6, 35.0)],
                &[(Less, 1, 1), (Unclear, 5, 5)],
            ),
            (
                &[(1, 1.3, 1.4), (5, 0.3, 0.5)],
                &[(More, 1, 1), (Less, 5, 5)],
            ),
            (&[], &[]),
        ] {
            let points = points(ratios);
            let found = stretches(&points).into_iter();
            let found: Vec<_> = found
                .map(|s| (s.relation, s.ends().0, s.ends().1))
                .collect();
            assert_eq!(found, wanted, "{ratios:?}");
        }
    }

    #[test]
    fn the_widest_interval_is_that_of_a_stretch() {
        let of = stretches(&points(&[(1, 0.6, 2.0), (5, 0.6, 35.0), (9, 0.7, 1.4)]));
        assert_eq!(of.len(), 1);
        assert_eq!(of[0].widest().unwrap().high, 35.0);
    }
}
