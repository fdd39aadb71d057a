//! What else both runs have of a row, beside the figure by which they are judged: latencies, and what the
//! device did.

use super::judge::{UNKNOWN_NOISE, metrics, times};
use logforce_measure::{Kind, Row};
use serde::Serialize;

/// B beside A in one of these figures, of which less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// B's is smaller, beyond the noise.
    Less,
    /// B's is larger, beyond the noise.
    More,
    /// No difference that can be told from noise.
    Same,
}

/// A figure that some rows of both have.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// The field.
    pub field: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The rows that have it in both.
    pub rows: Vec<DetailRow>,
    #[serde(skip)]
    pub(crate) title: &'static str,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct DetailRow {
    /// Which one it is, in words.
    pub row: String,
    /// A's figure.
    pub a: f64,
    /// B's figure.
    pub b: f64,
    /// B's as a multiple of A's; `None` where A's is 0.
    pub ratio: Option<f64>,
    /// What it comes to.
    pub change: Change,
}

/// A field, its value, its unit, what it is, and a difference that nobody cares about.
type Field = (
    &'static str,
    fn(&Row) -> Option<f64>,
    &'static str,
    &'static str,
    f64,
);

const FIELDS: [Field; 7] = [
    ("p50_us", |r| r.p50_us, "µs", "Median latency", 0.0),
    (
        "p99_us",
        |r| r.p99_us,
        "µs",
        "99th percentile of the latency",
        0.0,
    ),
    (
        "device_writes_per_commit",
        |r| r.device_writes_per_commit,
        "a commit",
        "Writes of the device",
        0.05,
    ),
    (
        "device_flushes_per_commit",
        |r| r.device_flushes_per_commit,
        "a commit",
        "Cache flushes of the device",
        0.05,
    ),
    (
        "device_bytes_per_commit",
        |r| r.device_bytes_per_commit,
        "bytes a commit",
        "Bytes that the device wrote",
        256.0,
    ),
    (
        "device_writes_per_chunk",
        |r| r.device_writes_per_chunk,
        "a chunk",
        "Writes of the device",
        0.05,
    ),
    (
        "device_flushes_per_chunk",
        |r| r.device_flushes_per_chunk,
        "a chunk",
        "Cache flushes of the device",
        0.05,
    ),
];

/// All of them that there are, of rows that both runs have.
pub(super) fn details(kind: Kind, rows: &[(String, Row, Row)]) -> Vec<Detail> {
    let of = |(field, value, unit, title, least): &Field| {
        let noise_of = |a: &Row, b: &Row| match field.ends_with("_us") {
            true => noise(kind, a, b),
            // What was counted does not depend on how long it took.
            false => UNKNOWN_NOISE,
        };
        let rows = rows.iter().filter_map(|(name, a, b)| {
            let figure = |row: &Row| {
                let value = value(row).filter(|v| v.is_finite() && *v >= 0.0)?;
                row.error.is_none().then_some(value)
            };
            let (of_a, of_b) = (figure(a)?, figure(b)?);
            Some(DetailRow {
                row: name.clone(),
                a: of_a,
                b: of_b,
                ratio: (of_a > 0.0).then(|| of_b / of_a),
                change: judge(of_a, of_b, noise_of(a, b), *least),
            })
        });
        Detail {
            field,
            unit,
            title,
            rows: rows.collect(),
        }
    };
    let all = FIELDS.iter().map(of);
    all.filter(|detail| !detail.rows.is_empty()).collect()
}

/// These figures are of all slices together. As noise counts how far the slices of either run lie apart
/// in the figure that is known of each, and at least what counts where nothing is known.
fn noise(kind: Kind, a: &Row, b: &Row) -> f64 {
    let spreads = [a, b]
        .into_iter()
        .filter_map(|row| times(&metrics(kind)[0], row)?.1);
    let apart = spreads
        .filter(|(low, _)| *low > 0.0)
        .map(|(low, high)| high / low - 1.0);
    apart.fold(UNKNOWN_NOISE, f64::max)
}

fn judge(a: f64, b: f64, noise: f64, least: f64) -> Change {
    match () {
        () if (b - a).abs() <= least => Change::Same,
        () if b > a * (1.0 + noise) => Change::More,
        () if a > b * (1.0 + noise) => Change::Less,
        () => Change::Same,
    }
}

impl Detail {
    /// How many rows came to this.
    pub fn count(&self, change: Change) -> usize {
        self.rows.iter().filter(|r| r.change == change).count()
    }

    /// The outcome in a few words.
    pub fn summary(&self) -> String {
        let of = |change| self.count(change);
        let (more, less) = (of(Change::More), of(Change::Less));
        format!(
            "{more} more, {less} less, {} within the noise",
            of(Change::Same)
        )
    }
}

impl Change {
    /// In a word.
    pub fn words(self) -> &'static str {
        match self {
            Change::Less => "less",
            Change::More => "MORE",
            Change::Same => "same",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_the_noise_or_too_little_is_the_same() {
        assert_eq!(judge(100.0, 120.0, 0.25, 0.0), Change::Same);
        assert_eq!(judge(100.0, 130.0, 0.25, 0.0), Change::More);
        assert_eq!(judge(130.0, 100.0, 0.25, 0.0), Change::Less);
        assert_eq!(
            judge(100.0, 130.0, 0.5, 0.0),
            Change::Same,
            "noisier slices"
        );
        assert_eq!(judge(0.001, 0.02, 0.25, 0.05), Change::Same, "nobody cares");
        assert_eq!(judge(0.0, 1.0, 0.25, 0.05), Change::More);
        assert_eq!(judge(1.0, 0.0, 0.25, 0.05), Change::Less);
        assert_eq!(judge(0.0, 0.0, 0.25, 0.0), Change::Same);
    }
}
