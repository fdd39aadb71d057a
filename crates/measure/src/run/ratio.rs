//! Ratio of two figures that were measured in turns, and the interval in which it lies.

use logforce_terminal::numbers::short;

/// Interval in which the ratio of two figures must lie for them to be called the same.
const SAME: (f64, f64) = (0.8, 1.25);
/// Minimum number of rounds. Fewer may lie close together by chance.
pub const FEWEST_ROUNDS: usize = 3;
/// Probability with which the interval holds the true ratio, if there are enough rounds for it.
const CONFIDENCE: f64 = 0.9;

/// A ratio, and its interval. The interval holds the ratio itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of the two figures.
    pub figure: f64,
    /// Lower edge.
    pub low: f64,
    /// Upper edge; infinite if there were fewer than [`FEWEST_ROUNDS`] rounds.
    pub high: f64,
}

/// Relation of the first figure to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The first is less.
    Less,
    /// Both are the same: the whole interval is near 1.
    Same,
    /// The first is more.
    More,
    /// The noise is larger than the difference, or too little was measured.
    Unclear,
}

impl Ratio {
    /// Returns the ratio of two figures from pairs of their rounds. The edges are those ratios of single
    /// rounds between which the median lies with nine tenths probability, whatever their distribution.
    pub fn of(figure: f64, rounds: impl IntoIterator<Item = (f64, f64)>) -> Ratio {
        let ratios = rounds.into_iter().map(|(one, other)| one / other);
        let mut ratios: Vec<f64> = ratios.filter(|r| r.is_finite()).collect();
        if ratios.len() < FEWEST_ROUNDS {
            return Ratio::unknown(figure);
        }
        ratios.sort_by(f64::total_cmp);
        let beyond = beyond(ratios.len());
        let (low, high) = (ratios[beyond], ratios[ratios.len() - 1 - beyond]);
        // A figure may be a mean, on which a single long stall has more weight.
        Ratio {
            figure,
            low: low.min(figure),
            high: high.max(figure),
        }
    }

    /// Returns the ratio of two means, each with its standard error as a part of it.
    pub fn of_means(figure: f64, errors: (f64, f64)) -> Ratio {
        let factor = 1.0 + 2.0 * errors.0.hypot(errors.1);
        match factor.is_finite() {
            true => Ratio {
                figure,
                low: figure / factor,
                high: figure * factor,
            },
            false => Ratio::unknown(figure),
        }
    }

    fn unknown(figure: f64) -> Ratio {
        Ratio {
            figure,
            low: 0.0,
            high: f64::INFINITY,
        }
    }

    /// Returns the relation. Figures are the same only if the whole interval says so.
    pub fn relation(&self) -> Relation {
        match (self.low, self.high) {
            (low, high) if low >= SAME.0 && high <= SAME.1 => Relation::Same,
            (low, _) if low > 1.0 => Relation::More,
            (_, high) if high < 1.0 => Relation::Less,
            _ => Relation::Unclear,
        }
    }

    /// Returns the interval in words: `0.60 to 35`.
    pub fn interval(&self) -> String {
        format!("{} to {}", multiple(self.low), multiple(self.high))
    }

    /// Returns the reason for [`Relation::Unclear`], in words.
    pub fn unclear(&self) -> String {
        match self.high.is_finite() {
            true => format!("too noisy to tell ({})", self.interval()),
            false => "too little was measured to tell".to_owned(),
        }
    }
}

/// Formats a ratio: `0.029`, `0.60`, `35.0`.
pub fn multiple(ratio: f64) -> String {
    short(ratio, if ratio < 0.1 { 3 } else { 2 })
}

/// Returns the number of ratios beyond each edge: the largest with which the interval still holds the median
/// with [`CONFIDENCE`].
fn beyond(count: usize) -> usize {
    /// Number of rounds from which on the normal distribution is close enough, and its quantile.
    const MANY: (usize, f64) = (100, 1.645);
    if count >= MANY.0 {
        let n = count as f64;
        return ((n - MANY.1 * n.sqrt()) / 2.0) as usize;
    }
    // Probability that exactly k of the rounds lie below the median, and twice the sum of those so far.
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut outside = 0.0;
    for k in 0..count {
        outside += 2.0 * exactly;
        if outside > 1.0 - CONFIDENCE {
            return k.saturating_sub(1);
        }
        exactly *= (count - k) as f64 / (k + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratios: &[f64]) -> Ratio {
        let middle = crate::run::stats::median(ratios);
        Ratio::of(middle, ratios.iter().map(|r| (*r, 1.0)))
    }

    #[test]
    fn the_edges_leave_out_as_many_rounds_as_the_confidence_permits() {
        // That many heads or fewer in `count` tosses of a coin have a probability below a twentieth.
        for (count, left_out) in [
            (3, 0),
            (4, 0),
            (5, 0),
            (7, 0),
            (8, 1),
            (10, 1),
            (11, 2),
            (20, 5),
        ] {
            assert_eq!(beyond(count), left_out, "{count}");
        }
        let share = |count| beyond(count) as f64 / count as f64;
        assert!((share(99) - share(100)).abs() < 0.01 && share(1_000_000) > 0.49);
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = of(&ten);
        assert_eq!((found.low, found.high), (2.0, 9.0));
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_the_same() {
        for (ratios, relation) in [
            (&[0.9, 1.0, 1.1, 1.0, 1.05][..], Relation::Same),
            (&[1.2, 1.2, 1.2], Relation::Same),
            (&[1.2, 1.3, 1.4], Relation::More),
            (&[0.5, 0.7, 0.9], Relation::Less),
            (&[0.7, 1.0, 1.1], Relation::Unclear),
            (&[0.6, 35.0, 2.0, 1.0], Relation::Unclear),
            (&[1.0, 1.0], Relation::Unclear),
            (&[], Relation::Unclear),
        ] {
            assert_eq!(of(ratios).relation(), relation, "{ratios:?}");
        }
        assert_eq!(
            of(&[0.6, 35.0, 2.0]).unclear(),
            "too noisy to tell (0.60 to 35.0)"
        );
        assert!(of(&[1.0]).unclear().contains("too little"));
        // The figure is a mean that a single stall made long.
        let stalled = Ratio::of(2.0, [(1.0, 1.0); 8]);
        assert_eq!(stalled.relation(), Relation::Unclear);
    }

    #[test]
    fn means_have_twice_the_error_of_both() {
        assert_eq!(
            Ratio::of_means(1.1, (0.01, 0.01)).relation(),
            Relation::Same
        );
        assert_eq!(
            Ratio::of_means(1.1, (0.1, 0.1)).relation(),
            Relation::Unclear
        );
        assert_eq!(Ratio::of_means(1.5, (0.1, 0.1)).relation(), Relation::More);
        assert!(
            Ratio::of_means(1.5, (f64::INFINITY, 0.0))
                .high
                .is_infinite()
        );
    }
}
