//! Crossover: the number of pages from which one barrier is cheaper than write-through.

use crate::run::stats::Spread;

/// Number of pages at which write-through stops being cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossover {
    /// Write-through is cheaper up to the first number of pages, one barrier from the second on.
    Between(u64, u64),
    /// One barrier is cheaper from here on; fewer pages cost the same in both ways.
    From(u64),
    /// One barrier is cheaper for every number of pages.
    Always,
    /// Write-through is cheaper for some numbers of pages and the barrier for none, up to this number, the
    /// largest one measured.
    NotUpTo(u64),
    /// Neither way is cheaper beyond the noise.
    Neither,
    /// The cheaper way changes irregularly, so there is no conclusion.
    Unclear,
    /// Too little was measured.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cheaper {
    Through,
    Barrier,
    Neither,
}

/// Finds the crossover. `points` holds, by ascending number of pages, the time of write-through divided by
/// that of the barrier. A way is cheaper if the whole range from p10 to p90 says so.
pub fn crossover(points: &[(u64, Spread)]) -> Crossover {
    let cheaper = |s: &Spread| match (s.p90 < 1.0, s.p10 > 1.0) {
        (true, _) => Cheaper::Through,
        (_, true) => Cheaper::Barrier,
        _ => Cheaper::Neither,
    };
    let seen: Vec<(u64, Cheaper)> = points.iter().map(|(n, s)| (*n, cheaper(s))).collect();
    let at = |what| move |(_, c): &&(u64, Cheaper)| *c == what;
    let last_through = seen.iter().rfind(at(Cheaper::Through)).map(|(n, _)| *n);
    let first_barrier = seen.iter().find(at(Cheaper::Barrier)).map(|(n, _)| *n);
    match (last_through, first_barrier) {
        _ if seen.is_empty() => Crossover::Unknown,
        (Some(through), Some(barrier)) if through < barrier => Crossover::Between(through, barrier),
        (Some(_), Some(_)) => Crossover::Unclear,
        (Some(_), None) => Crossover::NotUpTo(seen.last().map_or(0, |(n, _)| *n)),
        (None, Some(barrier)) if seen.iter().all(|(_, c)| *c == Cheaper::Barrier) => {
            debug_assert_eq!(seen.first().map(|(n, _)| *n), Some(barrier));
            Crossover::Always
        }
        (None, Some(barrier)) => {
            let beyond = seen.iter().filter(|(n, _)| *n >= barrier);
            match beyond.clone().all(|(_, c)| *c == Cheaper::Barrier) {
                true => Crossover::From(barrier),
                // Only a few sizes differ; for most the noise is larger than the difference.
                false => Crossover::Neither,
            }
        }
        (None, None) => Crossover::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(ratios: &[(u64, f64, f64)]) -> Vec<(u64, Spread)> {
        let spread = |p10: f64, p90: f64| Spread {
            median: (p10 + p90) / 2.0,
            p10,
            p90,
        };
        ratios
            .iter()
            .map(|&(n, low, high)| (n, spread(low, high)))
            .collect()
    }

    #[test]
    fn follows_the_figures() {
        for (ratios, wanted) in [
            (
                &[(1, 0.4, 0.6), (5, 0.9, 1.1), (10, 1.2, 1.4)][..],
                Crossover::Between(1, 10),
            ),
            (&[(1, 0.9, 1.1), (5, 1.1, 1.2)], Crossover::From(5)),
            (&[(1, 1.2, 1.3), (5, 1.1, 1.2)], Crossover::Always),
            (&[(1, 0.2, 0.3), (5, 0.9, 1.2)], Crossover::NotUpTo(5)),
            (&[(1, 0.9, 1.1)], Crossover::Neither),
            (
                &[(1, 1.01, 1.1), (5, 0.9, 1.1), (9, 1.01, 1.1)],
                Crossover::Neither,
            ),
            (&[(1, 1.2, 1.3), (5, 0.3, 0.5)], Crossover::Unclear),
            (&[], Crossover::Unknown),
        ] {
            assert_eq!(crossover(&points(ratios)), wanted, "{ratios:?}");
        }
    }
}
