//! Median of ratios with its confidence interval.

/// Ratio of two rates measured in pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub median: f64,
    /// Lower end of the 95 % interval of the median.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// Computes the ratio of at least one pair of rates, (base, new).
    pub fn of(pairs: &[(f64, f64)]) -> Ratio {
        let mut ratios: Vec<f64> = pairs.iter().map(|(base, new)| new / base).collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len() - 1;
        let outside = outside(ratios.len());
        Ratio {
            median: median(ratios.iter().copied()),
            low: ratios[outside],
            high: ratios[last - outside],
        }
    }

    /// Returns true if the ratio is below `lowest` and noise does not explain that.
    pub fn is_below(&self, lowest: f64) -> bool {
        self.median < lowest && self.high < 1.0
    }
}

/// Returns the number of the `n` values that lie outside the interval at each end. The number of values
/// below the true median has a binomial distribution with p = 0.5; at most 2.5 % are cut at each end.
/// This assumes nothing about the distribution of the values.
fn outside(n: usize) -> usize {
    let mut chance = 0.5_f64.powi(n as i32);
    let mut sum = chance;
    let mut outside = 0;
    while sum <= 0.025 && outside < n / 2 {
        outside += 1;
        chance *= (n - outside + 1) as f64 / outside as f64;
        sum += chance;
    }
    outside.saturating_sub(1)
}

/// Returns the median; the mean of the middle two if the number is even. NaN without values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => f64::NAN,
        0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches published tables of the sign test: of 20 values the 6th and the 15th, of 6 all.
    #[test]
    fn the_interval_is_that_of_the_tables() {
        for (n, expected) in [(1, 0), (6, 0), (8, 0), (9, 1), (20, 5), (40, 13), (100, 39)] {
            assert_eq!(outside(n), expected, "{n}");
        }
        assert_eq!(outside(1000), 468);
    }

    #[test]
    fn only_what_noise_does_not_explain_is_slower() {
        let all = |ratio: f64| vec![(1000.0, 1000.0 * ratio); 20];
        assert!(Ratio::of(&all(0.85)).is_below(0.9));
        assert!(!Ratio::of(&all(0.95)).is_below(0.9));
        let noisy: Vec<_> = (0..20)
            .map(|n| (100.0, 70.0 + 3.0 * f64::from(n % 14)))
            .collect();
        let ratio = Ratio::of(&noisy);
        assert!(
            ratio.median < 0.9 && ratio.high < 1.0 && ratio.is_below(0.9),
            "{ratio:?}"
        );
        let noisier: Vec<_> = (0..20)
            .map(|n| (100.0, 50.0 + 4.0 * f64::from(n)))
            .collect();
        let ratio = Ratio::of(&noisier);
        assert!(ratio.median < 0.9 && !ratio.is_below(0.9), "{ratio:?}");
    }
}
