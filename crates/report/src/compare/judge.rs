//! Verdict on a row: its figure in both runs, as a time, against the noise.

use super::{Pair, Verdict};
use logforce_measure::{Kind, Quantity, Row};

/// Noise of rows whose slices are unknown: smaller differences do not count.
pub const UNKNOWN_NOISE: f64 = 0.25;
/// Smallest difference that counts, however small the noise is.
const LEAST: f64 = 0.02;
/// Smallest number of rounds whose spread is a measure of the noise.
const FEWEST_ROUNDS: u64 = 3;

/// Quantity by which rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metric {
    /// Quantity.
    pub of: Quantity,
    /// Unit of the quantity, for people.
    pub unit: &'static str,
    /// True if more is better.
    pub more_is_better: bool,
    /// Text after the name of the row, for a quantity that is not the main one.
    pub beside: &'static str,
    /// Flag that sets the amount of work whose time this is, and its default.
    pub amount: Option<(&'static str, u64)>,
}

const fn metric(of: Quantity, unit: &'static str, more_is_better: bool) -> Metric {
    Metric {
        of,
        unit,
        more_is_better,
        beside: "",
        amount: None,
    }
}

const RATE: Metric = metric(Quantity::CommitsPerS, "commits/s", true);
const CHUNKS: Metric = metric(Quantity::ChunksPerS, "chunks/s", true);
const TIME: Metric = metric(Quantity::MsPerCommit, "ms a commit", false);
const PAIRS: Metric = Metric {
    beside: "pairs in s",
    amount: Some(("--pairs", logforce_measure::inserts::PAIRS)),
    ..metric(Quantity::PairsS, "s", false)
};

/// Returns the quantities by which rows are compared, the main one first.
pub(super) fn metrics(kind: Kind) -> &'static [Metric] {
    match kind {
        Kind::Journal | Kind::Map => &[TIME],
        Kind::Group | Kind::Pages => &[RATE],
        Kind::Inserts => &[RATE, PAIRS],
        Kind::Sweep => &[CHUNKS],
    }
}

/// Returns whether the row has a figure. A figure of 0 does not count, because there was no commit.
pub(super) fn has_figure(metric: &Metric, row: &Row) -> bool {
    times(metric, row).is_some()
}

type Spread = Option<(f64, f64)>;

/// Returns a figure as a time, with its spread from low to high. Rates are inverted.
pub(super) fn times(metric: &Metric, row: &Row) -> Option<(f64, Spread)> {
    let [of, low, high] = row.triple(metric.of).map(|value| {
        let value = value.filter(|v| *v > 0.0 && v.is_finite())?;
        Some(match metric.more_is_better {
            true => 1.0 / value,
            false => value,
        })
    });
    if row.error.is_some() {
        return None;
    }
    let is_known = row.rounds.is_none_or(|rounds| rounds >= FEWEST_ROUNDS);
    let spread = low.zip(high).filter(|_| is_known);
    Some((of?, spread.map(|(a, b)| (a.min(b), a.max(b)))))
}

/// Compares one figure of a row in both runs.
pub(super) fn pair(metric: &Metric, row: String, a: &Row, b: &Row) -> Pair {
    let (of_a, of_b) = (times(metric, a), times(metric, b));
    let figure = |r: &Row| r.triple(metric.of)[0].filter(|_| r.error.is_none());
    let both = of_a.zip(of_b);
    let least = |((a, of_a), (b, of_b)): Both| match of_a.zip(of_b) {
        Some(((_, a_high), (b_low, _))) => b_low / a_high,
        None => b / a / (1.0 + UNKNOWN_NOISE),
    };
    Pair {
        row,
        field: metric.of.field(),
        unit: metric.unit,
        a: figure(a),
        b: figure(b),
        time_ratio: both.map(|((a, _), (b, _))| b / a),
        time_ratio_at_least: both.map(least),
        noise: both.map(|(a, b)| noise(a, b)),
        verdict: match (of_a, of_b) {
            (Some(a), Some(b)) => judge(a, b),
            (Some(_), None) => Verdict::Failed,
            (None, Some(_)) => Verdict::Recovered,
            (None, None) => Verdict::Unmeasured,
        },
        error: b.error.clone(),
        is_known_noise: both.is_some_and(|((_, a), (_, b))| a.is_some() && b.is_some()),
    }
}

type Both = ((f64, Spread), (f64, Spread));

fn judge((a, of_a): (f64, Spread), (b, of_b): (f64, Spread)) -> Verdict {
    let ratio = b / a;
    let (slower, faster) = match of_a.zip(of_b) {
        Some(((a_low, a_high), (b_low, b_high))) => (b_low > a_high, b_high < a_low),
        None => (
            ratio > 1.0 + UNKNOWN_NOISE,
            ratio < 1.0 / (1.0 + UNKNOWN_NOISE),
        ),
    };
    match () {
        () if slower && ratio > 1.0 + LEAST => Verdict::Slower,
        () if faster && ratio < 1.0 / (1.0 + LEAST) => Verdict::Faster,
        () => Verdict::Same,
    }
}

/// Returns the share by which the median of B must exceed that of A so that B's slices lie beyond A's. Both
/// runs keep their spread.
fn noise((a, of_a): (f64, Spread), (b, of_b): (f64, Spread)) -> f64 {
    match of_a.zip(of_b) {
        Some(((_, a_high), (b_low, _))) => (a_high / a * b / b_low - 1.0).max(LEAST),
        None => UNKNOWN_NOISE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_noise() {
        let of = |a: (f64, f64, f64), b: (f64, f64, f64)| {
            judge((a.1, Some((a.0, a.2))), (b.1, Some((b.0, b.2))))
        };
        assert_eq!(of((0.9, 1.0, 1.1), (1.05, 1.2, 1.3)), Verdict::Same);
        assert_eq!(of((0.9, 1.0, 1.1), (1.15, 1.2, 1.3)), Verdict::Slower);
        assert_eq!(of((1.15, 1.2, 1.3), (0.9, 1.0, 1.1)), Verdict::Faster);
        // Beyond the noise, but too small to count.
        assert_eq!(of((1.0, 1.0, 1.0), (1.01, 1.01, 1.01)), Verdict::Same);
    }

    #[test]
    fn noise_is_the_smallest_loss_that_counts() {
        let of = |a, b| noise((1.0, a), (1.3, b));
        assert!((of(None, None) - 0.25).abs() < 1e-9);
        assert!((of(Some((0.9, 1.1)), None) - 0.25).abs() < 1e-9);
        // A's slow edge is a tenth above its median, B's fast edge is 0.8 of its median.
        let both = of(Some((0.9, 1.1)), Some((1.04, 1.6)));
        assert!((both - (1.1 / 0.8 - 1.0)).abs() < 1e-9, "{both}");
        let none = of(Some((0.999, 1.001)), Some((1.299, 1.301)));
        assert!((none - LEAST).abs() < 1e-9, "{none}");
    }

    #[test]
    fn without_slices_a_quarter_counts() {
        assert_eq!(judge((1.0, None), (1.2, None)), Verdict::Same);
        assert_eq!(judge((1.0, None), (1.3, Some((1.2, 1.4)))), Verdict::Slower);
        assert_eq!(judge((1.3, None), (1.0, None)), Verdict::Faster);
    }
}
