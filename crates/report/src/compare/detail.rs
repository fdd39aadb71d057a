//! Details of a comparison: latencies and device counters, in addition to the figure by which rows are
//! judged.

use super::judge::UNKNOWN_NOISE;
use super::metric::{metrics, times};
use logforce_measure::{Kind, Row};
use serde::Serialize;

/// Change of a detail from A to B. Less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// B has less, beyond the noise.
    Less,
    /// B has more, beyond the noise.
    More,
    /// The difference is within the noise.
    Same,
}

/// A figure that some rows have in both runs.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// Name of the field.
    pub field: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
    /// Rows that have the figure in both runs.
    pub rows: Vec<DetailRow>,
    #[serde(skip)]
    pub(crate) title: &'static str,
}

/// A row of a detail.
#[derive(Debug, Clone, Serialize)]
pub struct DetailRow {
    /// Name of the row, in words.
    pub row: String,
    /// Figure of A.
    pub a: f64,
    /// Figure of B.
    pub b: f64,
    /// Figure of B divided by that of A; `None` if A has 0.
    pub ratio: Option<f64>,
    /// Result.
    pub change: Change,
}

/// A field: name, value, unit, title, and the largest difference that is ignored.
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

/// Returns all details of the rows that both runs have.
pub(super) fn details(kind: Kind, rows: &[(String, Row, Row)]) -> Vec<Detail> {
    let of = |(field, value, unit, title, least): &Field| {
        let noise_of = |a: &Row, b: &Row| match field.ends_with("_us") {
            true => noise(kind, a, b),
            // Counts do not depend on the time.
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

/// Returns the noise of a detail. Details are known only for all slices together, so the spread of the
/// slices in the main figure is used. The result is that of the noisier run, and at least
/// [`UNKNOWN_NOISE`].
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
    /// Returns the number of rows with this result.
    pub fn count(&self, change: Change) -> usize {
        self.rows.iter().filter(|r| r.change == change).count()
    }

    /// Returns the outcome in a few words.
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
    /// Returns the change in a word.
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
        assert_eq!(
            judge(0.001, 0.02, 0.25, 0.05),
            Change::Same,
            "too small to count"
        );
        assert_eq!(judge(0.0, 1.0, 0.25, 0.05), Change::More);
        assert_eq!(judge(1.0, 0.0, 0.25, 0.05), Change::Less);
        assert_eq!(judge(0.0, 0.0, 0.25, 0.0), Change::Same);
    }
}
