//! Two runs beside each other, matched row by row.
//!
//! A difference counts only where it is beyond the noise: where 8 of 10 slices of one run lie on one
//! side of 8 of 10 slices of the other. A row without slices has no noise that is known; there a
//! difference counts from [`UNKNOWN_NOISE`] on.

mod detail;
mod text;

use crate::document::{Document, Kind, Row};
pub use detail::{Change, Detail, DetailRow};
use logforce_measure::numbers::bytes;
use serde::Serialize;
pub use text::{NOTE, NOTE_ON_DETAILS, mark, summary, text};

/// Below this a difference of rows whose slices are not known is called noise.
pub const UNKNOWN_NOISE: f64 = 0.25;
/// Below this nothing is called a difference.
const LEAST: f64 = 0.02;

/// Value of `schema` in its JSON.
pub const SCHEMA: &str = "logforce-compare";
/// Value of `version`.
pub const VERSION: u32 = 1;

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, beyond the noise.
    Faster,
    /// B is worse, beyond the noise.
    Slower,
    /// No difference that can be told from noise.
    Same,
    /// A has figures and B an error.
    Failed,
    /// A has an error and B figures.
    Recovered,
    /// Neither has figures.
    Unmeasured,
}

/// A row of both.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// Which row it is, in words.
    pub row: String,
    /// A's figure.
    pub a: Option<f64>,
    /// B's figure.
    pub b: Option<f64>,
    /// B's time as a multiple of A's: above 1 B is slower.
    pub time_ratio: Option<f64>,
    /// The same from the slow edge of A's slices to the fast edge of B's: what is left of a loss when the
    /// noise of both is taken off. Of rows without slices [`UNKNOWN_NOISE`] is taken off.
    pub time_ratio_at_least: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// B's error, if it has one.
    pub error: Option<String>,
    #[serde(skip)]
    pub(crate) is_known_noise: bool,
}

/// Both runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// The scenario.
    pub scenario: &'static str,
    /// The unit of the figures.
    pub unit: &'static str,
    /// Names of A and B.
    pub names: [String; 2],
    /// When they began.
    pub started: [String; 2],
    /// Their command lines.
    pub commands: [String; 2],
    /// What differs between the machines or the runs, in sentences.
    pub notes: Vec<String>,
    /// Rows that both have.
    pub rows: Vec<Pair>,
    /// Rows of A alone.
    pub only_a: Vec<String>,
    /// Rows of B alone.
    pub only_b: Vec<String>,
    /// Latencies, and what the device did, as far as both have them.
    pub details: Vec<Detail>,
    #[serde(skip)]
    pub(crate) kind: Kind,
}

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They measured different things.
    #[error(
        "{a} is a result of `bench {of_a}` and {b} one of `bench {of_b}`: only runs of the same scenario can be compared"
    )]
    Scenarios {
        /// A's name.
        a: String,
        /// B's name.
        b: String,
        /// A's scenario.
        of_a: &'static str,
        /// B's scenario.
        of_b: &'static str,
    },
    /// Nothing in common.
    #[error(
        "{a} and {b} have no row in common: they were run with other flags (compare their \"command\")"
    )]
    NothingInCommon {
        /// A's name.
        a: String,
        /// B's name.
        b: String,
    },
}

/// Compares B with A.
///
/// # Errors
/// They are of different scenarios, or have no row in common.
pub fn compare(a: (&str, &Document), b: (&str, &Document)) -> Result<Comparison, CompareError> {
    let ((a_name, a), (b_name, b)) = (a, b);
    let kind = a.kind();
    if kind != b.kind() {
        return Err(CompareError::Scenarios {
            a: a_name.to_owned(),
            b: b_name.to_owned(),
            of_a: kind.name(),
            of_b: b.kind().name(),
        });
    }
    let key = |row: &Row| key(kind, row);
    let find = |in_rows: &[Row], wanted: &str| in_rows.iter().find(|r| key(r) == wanted).cloned();
    let mut both = Vec::new();
    let mut only_a = Vec::new();
    for row in a.rows() {
        let name = key(row);
        match find(b.rows(), &name) {
            Some(other) => both.push((name, row.clone(), other)),
            None => only_a.push(name),
        }
    }
    let rows: Vec<Pair> = both
        .iter()
        .map(|(name, a, b)| pair(kind, name.clone(), a, b))
        .collect();
    let lacks = |row: &&Row| find(a.rows(), &key(row)).is_none();
    let only_b = b.rows().iter().filter(lacks).map(key).collect();
    if rows.is_empty() {
        return Err(CompareError::NothingInCommon {
            a: a_name.to_owned(),
            b: b_name.to_owned(),
        });
    }
    Ok(Comparison {
        schema: SCHEMA,
        version: VERSION,
        scenario: kind.name(),
        unit: kind.metric().unit,
        names: [a_name.to_owned(), b_name.to_owned()],
        started: [a, b].map(|d| d.text("started").to_owned()),
        commands: [a, b].map(|d| d.text("command").to_owned()),
        notes: notes(a, b),
        rows,
        only_a,
        only_b,
        details: detail::details(kind, &both),
        kind,
    })
}

impl Comparison {
    /// The rows in which B takes longer than A by more than this part even when the noise of both is
    /// taken off, or has an error where A has figures: a pipeline must not stop for noise.
    pub fn worse_by(&self, part: f64) -> impl Iterator<Item = &Pair> {
        self.rows.iter().filter(move |pair| match pair.verdict {
            Verdict::Failed => true,
            Verdict::Slower => pair.time_ratio_at_least.is_some_and(|r| r > 1.0 + part),
            _ => false,
        })
    }

    /// How many rows came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|p| p.verdict == verdict).count()
    }
}

/// Which row it is, in words.
fn key(kind: Kind, row: &Row) -> String {
    let parts = kind.key().iter().filter_map(|field| match *field {
        "bytes" | "record_bytes" | "chunk_bytes" => Some(bytes(row.count(field))),
        "file_bytes" => Some(format!("file of {}", bytes(row.count(field)))),
        "threads" => Some(format!("{} thr.", row.count(field))),
        "depth" => Some(format!("{} in flight", row.count(field))),
        "clients" => Some(format!("{} clients", row.count(field))),
        "pages" => Some(format!("{} pages", row.count(field))),
        _ => Some(row.text(field).to_owned()).filter(|t| !t.is_empty()),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// A figure as a time, whatever it is: rates are turned over. With its spread, from low to high.
fn times(kind: Kind, row: &Row) -> Option<(f64, Option<(f64, f64)>)> {
    let metric = kind.metric();
    let of = |suffix: &str| {
        let value = row
            .number(&format!("{}{suffix}", metric.field))
            .filter(|v| *v > 0.0)?;
        Some(if metric.more_is_better {
            1.0 / value
        } else {
            value
        })
    };
    let spread = of("_p10")
        .zip(of("_p90"))
        .map(|(a, b)| (a.min(b), a.max(b)));
    Some((of("")?, spread))
}

fn pair(kind: Kind, row: String, a: &Row, b: &Row) -> Pair {
    let figure = |r: &Row| {
        r.number(kind.metric().field)
            .filter(|_| r.error().is_none())
    };
    let (of_a, of_b) = (figure(a), figure(b));
    let both = times(kind, a)
        .zip(times(kind, b))
        .filter(|_| of_a.is_some() && of_b.is_some());
    let time_ratio = both.map(|((a, _), (b, _))| b / a);
    let least = |((a, of_a), (b, of_b)): Both| match of_a.zip(of_b) {
        Some(((_, a_high), (b_low, _))) => b_low / a_high,
        None => b / a / (1.0 + UNKNOWN_NOISE),
    };
    let is_known_noise = both.is_some_and(|((_, a), (_, b))| a.is_some() && b.is_some());
    let verdict = match (of_a, of_b, both) {
        (Some(_), None, _) => Verdict::Failed,
        (None, Some(_), _) => Verdict::Recovered,
        (_, _, None) => Verdict::Unmeasured,
        (_, _, Some(((a, of_a), (b, of_b)))) => judge((a, of_a), (b, of_b)),
    };
    Pair {
        row,
        a: of_a,
        b: of_b,
        time_ratio,
        time_ratio_at_least: both.map(least),
        verdict,
        error: b.error().map(str::to_owned),
        is_known_noise,
    }
}

type Spread = Option<(f64, f64)>;
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

fn notes(a: &Document, b: &Document) -> Vec<String> {
    const MACHINE: [&str; 9] = [
        "os",
        "kernel",
        "arch",
        "cpus",
        "filesystem",
        "mount_options",
        "device",
        "model",
        "write_cache",
    ];
    let mut notes = Vec::new();
    let differs = MACHINE
        .iter()
        .filter(|f| a.machine_text(f) != b.machine_text(f));
    let differs: Vec<String> = differs
        .map(|f| {
            format!(
                "{} ({} and {})",
                f.replace('_', " "),
                a.machine_text(f),
                b.machine_text(f)
            )
        })
        .collect();
    if !differs.is_empty() {
        notes.push(format!("The machines differ in {}.", differs.join(", ")));
    }
    for (name, document) in [("A", a), ("B", b)] {
        if document.is_interrupted() {
            notes.push(format!(
                "{name} was interrupted: its figures are of the time until then."
            ));
        }
    }
    notes
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
        // Beyond the noise, and too little to speak of.
        assert_eq!(of((1.0, 1.0, 1.0), (1.01, 1.01, 1.01)), Verdict::Same);
    }

    #[test]
    fn without_slices_a_quarter_counts() {
        assert_eq!(judge((1.0, None), (1.2, None)), Verdict::Same);
        assert_eq!(judge((1.0, None), (1.3, Some((1.2, 1.4)))), Verdict::Slower);
        assert_eq!(judge((1.3, None), (1.0, None)), Verdict::Faster);
    }
}
