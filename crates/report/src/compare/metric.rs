//! Quantities by which rows are compared, as times.

use logforce_measure::{Kind, Quantity, Row};

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

/// Edges of the slices, from low to high; `None` if they are unknown.
pub(super) type Spread = Option<(f64, f64)>;

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
