//! Knee: the number of writes in flight above which more no longer pay.

use crate::result::name::named;
use crate::run::{Ratio, Relation};

/// Share of the higher rate by which two rates must differ, beyond the noise, to count as different.
const MARGIN: f64 = 0.10;

/// Figures at one number of writes in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DepthPoint {
    /// Number of writes in flight.
    pub depth: u64,
    /// Chunks per second.
    pub rate: f64,
    /// Standard error of `rate`; infinite if there are too few slices.
    pub error: f64,
}

impl DepthPoint {
    /// Multiplies the rate and its error by `factor`.
    pub fn times(self, factor: f64) -> DepthPoint {
        DepthPoint {
            rate: self.rate * factor,
            error: self.error * factor,
            ..self
        }
    }

    /// Returns the difference between two rates that noise alone may cause.
    fn noise(&self, other: &DepthPoint) -> f64 {
        2.0 * self.error.hypot(other.error)
    }

    /// Returns whether `self` is faster by more than the margin and the noise.
    pub fn is_beyond(&self, other: &DepthPoint) -> bool {
        self.rate - other.rate > self.rate * MARGIN + self.noise(other)
    }

    /// Returns the rate as a multiple of another.
    pub fn ratio(&self, to: &DepthPoint) -> Ratio {
        let errors = (self.error / self.rate, to.error / to.rate);
        Ratio::of_means(self.rate / to.rate, errors)
    }

    fn is_the_same(&self, other: &DepthPoint) -> bool {
        self.ratio(other).relation() == Relation::Same
    }
}

/// Result over the depths of one chunk size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// More writes in flight pay, up to the knee.
    Pays,
    /// The smallest measured depth is as good as more.
    Flat,
    /// The noise is larger than the differences.
    Noise,
    /// There are too few slices to know the noise.
    TooLittle,
    /// Only one depth has a figure.
    OneDepth,
    /// No depth has a figure.
    Nothing,
}

impl Finding {
    /// All findings.
    pub const ALL: [Finding; 6] = [
        Finding::Pays,
        Finding::Flat,
        Finding::Noise,
        Finding::TooLittle,
        Finding::OneDepth,
        Finding::Nothing,
    ];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Finding::Pays => "pays",
            Finding::Flat => "flat",
            Finding::Noise => "noise",
            Finding::TooLittle => "too-little",
            Finding::OneDepth => "one-depth",
            Finding::Nothing => "nothing",
        }
    }
}

named!(Finding);

/// The knee of one chunk size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneeResult {
    /// Result.
    pub finding: Finding,
    /// Smallest depth that is as good as the best; `None` if it is unknown.
    pub knee: Option<DepthPoint>,
    /// Smallest depth that has a figure.
    pub first: Option<DepthPoint>,
    /// Depth with the highest rate.
    pub best: Option<DepthPoint>,
}

/// Finds the knee: the smallest depth whose rate is as good as the highest one. That means at most a
/// tenth below it, or that both are the same with their noise.
pub fn knee(points: &[DepthPoint]) -> KneeResult {
    let mut points = points.to_vec();
    points.sort_by_key(|p| p.depth);
    let nothing = KneeResult {
        finding: Finding::Nothing,
        knee: None,
        first: points.first().copied(),
        best: points
            .iter()
            .copied()
            .max_by(|a, b| a.rate.total_cmp(&b.rate)),
    };
    let finding = |finding| KneeResult { finding, ..nothing };
    match points.len() {
        0 => return nothing,
        1 => return finding(Finding::OneDepth),
        _ => {}
    }
    points.retain(|p| p.error.is_finite());
    let best = points
        .iter()
        .copied()
        .max_by(|a, b| a.rate.total_cmp(&b.rate));
    let (Some(first), Some(best), true) = (points.first().copied(), best, points.len() > 1) else {
        return finding(Finding::TooLittle);
    };
    let is_as_good = |p: &DepthPoint| {
        best.rate - p.rate <= best.rate * MARGIN || (!best.is_beyond(p) && best.is_the_same(p))
    };
    let told = |finding, knee| KneeResult {
        finding,
        knee: Some(knee),
        first: Some(first),
        best: Some(best),
    };
    if best.is_beyond(&first) {
        let knee = points.iter().copied().find(is_as_good).unwrap_or(best);
        return told(Finding::Pays, knee);
    }
    let is_flat = best.rate - first.rate <= best.rate * MARGIN;
    if is_flat && best.is_the_same(&first) {
        return told(Finding::Flat, first);
    }
    KneeResult {
        finding: Finding::Noise,
        knee: None,
        first: Some(first),
        best: Some(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns points with a standard error of `noise` times the rate.
    fn points(rates: &[(u64, f64)], noise: f64) -> Vec<DepthPoint> {
        let of = |&(depth, rate): &(u64, f64)| DepthPoint {
            depth,
            rate,
            error: rate * noise,
        };
        rates.iter().map(of).collect()
    }

    const RISING: [(u64, f64); 6] = [
        (1, 1000.0),
        (2, 1900.0),
        (4, 3500.0),
        (8, 4700.0),
        (16, 4900.0),
        (32, 5000.0),
    ];

    fn of(rates: &[(u64, f64)], noise: f64) -> (Finding, Option<u64>) {
        let found = knee(&points(rates, noise));
        (found.finding, found.knee.map(|p| p.depth))
    }

    #[test]
    fn the_smallest_depth_within_a_tenth_of_the_best() {
        assert_eq!(of(&RISING, 0.0), (Finding::Pays, Some(8)));
        // The order of the points does not matter.
        let mut turned = RISING;
        turned.reverse();
        assert_eq!(of(&turned, 0.0), (Finding::Pays, Some(8)));
        let found = knee(&points(&RISING, 0.0));
        assert_eq!(
            (found.first.unwrap().depth, found.best.unwrap().depth),
            (1, 32)
        );
    }

    #[test]
    fn the_best_may_lie_before_the_deepest() {
        let falling = [(1, 1000.0), (4, 5000.0), (16, 3000.0), (32, 2000.0)];
        assert_eq!(of(&falling, 0.01), (Finding::Pays, Some(4)));
        let from_the_first = [(1, 1000.0), (4, 700.0)];
        assert_eq!(of(&from_the_first, 0.01), (Finding::Flat, Some(1)));
    }

    #[test]
    fn noise_takes_depths_together_but_not_without_limit() {
        let of_noise = |noise| of(&RISING, noise);
        assert_eq!(of_noise(0.01), (Finding::Pays, Some(8)));
        // 3500 and 5000 may differ by noise alone, but also by 40 %.
        assert_eq!(of_noise(0.09), (Finding::Pays, Some(8)));
        assert_eq!(of_noise(0.2), (Finding::Pays, Some(8)));
        // 4400 and 5000 differ by more than a tenth, and are the same.
        let near = [(1, 1000.0), (4, 4400.0), (8, 5000.0)];
        assert_eq!(of(&near, 0.001), (Finding::Pays, Some(8)));
        assert_eq!(of(&near, 0.02), (Finding::Pays, Some(4)));
        assert_eq!(of_noise(0.5), (Finding::Noise, None));
    }

    #[test]
    fn as_good_as_more_is_said_only_where_it_is_known() {
        let flat = [(1, 1000.0), (2, 1050.0), (4, 1080.0)];
        assert_eq!(of(&flat, 0.02), (Finding::Flat, Some(1)));
        assert_eq!(of(&flat, 0.3), (Finding::Noise, None));
        // A third more may be noise, so neither finding applies.
        let perhaps = [(1, 1000.0), (2, 1300.0)];
        assert_eq!(of(&perhaps, 0.07), (Finding::Noise, None));
    }

    #[test]
    fn what_is_not_enough_has_no_knee() {
        assert_eq!(of(&[], 0.0), (Finding::Nothing, None));
        assert_eq!(of(&[(4, 10.0)], 0.0), (Finding::OneDepth, None));
        assert_eq!(of(&RISING, f64::INFINITY), (Finding::TooLittle, None));
        let mut partly = points(&RISING, 0.01);
        partly[5].error = f64::INFINITY;
        let found = knee(&partly);
        assert_eq!(
            (found.finding, found.best.unwrap().depth),
            (Finding::Pays, 16)
        );
    }
}
