//! Comparison of two runs, row by row.
//!
//! A difference counts only if it is beyond the noise: the ranges that hold 8 of 10 slices of each run must
//! not overlap. The noise of a row without slices is unknown; there a difference counts from
//! [`UNKNOWN_NOISE`] on. It must also be larger than the movement of the machine.
//!
//! - `control`: the movement of the machine, by rows that force nothing.
//! - `judge`: the verdict on a row. `detail`: its other differences.
//! - `gate`: the reasons to stop a pipeline.

mod control;
mod detail;
mod gate;
mod judge;
mod metric;
mod text;

pub use control::Control;
pub use detail::{Change, Detail, DetailRow};
pub use gate::{Gate, part_in_percent};
pub use judge::UNKNOWN_NOISE;
use judge::pair;
use logforce_measure::result::document::clean;
use logforce_measure::{Document, Kind, Row};
use metric::{Metric, has_figure, metrics};
use serde::Serialize;
pub use text::{NOTE, NOTE_ON_DETAILS, control, mark, summary, text};

/// Value of `schema` in the JSON of a comparison.
pub const SCHEMA: &str = "logforce-compare";
/// Value of `version` in the JSON of a comparison.
pub const VERSION: u32 = 1;

/// Verdict on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, beyond the noise.
    Faster,
    /// B is worse, beyond the noise.
    Slower,
    /// The ratio is within 0.8 to 1.25, noise included.
    Same,
    /// The difference is within the noise, and the noise is larger than that.
    Noisy,
    /// The difference is beyond the noise, but the machine may have moved as much.
    Machine,
    /// A has a figure; B has an error or no figure.
    Failed,
    /// A has an error or no figure; B has a figure.
    Recovered,
    /// Neither has a figure.
    Unmeasured,
}

/// A row that both runs have.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// Name of the row, in words.
    pub row: String,
    /// Name of the field that is compared.
    pub field: &'static str,
    /// Unit of the field.
    pub unit: &'static str,
    /// Figure of A.
    pub a: Option<f64>,
    /// Figure of B.
    pub b: Option<f64>,
    /// Time of B divided by that of A: above 1, B is slower.
    pub time_ratio: Option<f64>,
    /// The same ratio from the slow edge of A's slices to the fast edge of B's: the loss without the noise of
    /// both. For rows without slices, [`UNKNOWN_NOISE`] is taken off.
    pub time_ratio_at_least: Option<f64>,
    /// The same ratio from the fast edge of A's slices to the slow edge of B's.
    pub time_ratio_at_most: Option<f64>,
    /// Smallest share by which B must take longer to be called slower, from the spread of the slices of both and
    /// the movement of the machine. [`UNKNOWN_NOISE`] stands in for missing slices.
    pub noise: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// Error of B, if it has one.
    pub error: Option<String>,
    #[serde(skip)]
    pub(crate) is_known_noise: bool,
}

/// Comparison of two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Unit of the figures, except for rows that have another.
    pub unit: &'static str,
    /// Names of A and B.
    pub names: [String; 2],
    /// Start times of A and B.
    pub started: [String; 2],
    /// Command lines of A and B.
    pub commands: [String; 2],
    /// Differences between the machines or the runs, in sentences.
    pub notes: Vec<String>,
    /// Movement of the machine, in the main quantity.
    pub control: Control,
    /// Rows that both runs have.
    pub rows: Vec<Pair>,
    /// Names of the rows that only A has.
    pub only_a: Vec<String>,
    /// Names of the rows that only B has.
    pub only_b: Vec<String>,
    /// Latencies and device counters, as far as both runs have them.
    pub details: Vec<Detail>,
    /// Names of the figures of A that have no counterpart in B.
    pub not_comparable: Vec<String>,
    #[serde(skip)]
    pub(crate) kind: Kind,
}

/// Reason why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The runs are of different scenarios.
    #[error(
        "{a} is a result of `bench {of_a}` and {b} one of `bench {of_b}`: only runs of the same scenario can be compared"
    )]
    Scenarios {
        /// Name of A.
        a: String,
        /// Name of B.
        b: String,
        /// Scenario of A.
        of_a: &'static str,
        /// Scenario of B.
        of_b: &'static str,
    },
    /// The runs have no row in common.
    #[error(
        "{a} and {b} have no row in common: they were run with different flags (compare their \"command\")"
    )]
    NothingInCommon {
        /// Name of A.
        a: String,
        /// Name of B.
        b: String,
    },
}

/// Compares B with A.
///
/// # Errors
/// The runs are of different scenarios, or have no row in common.
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
    let key = |row: &Row| row.name(kind);
    let find = |in_rows: &[Row], wanted: &str| in_rows.iter().find(|r| key(r) == wanted).cloned();
    let mut both = Vec::new();
    let (mut only_a, mut not_comparable) = (Vec::new(), Vec::new());
    for row in &a.rows {
        let name = key(row);
        match find(&b.rows, &name) {
            Some(other) => both.push((name, row.clone(), other)),
            None => {
                if metrics(kind).iter().any(|m| has_figure(m, row)) {
                    not_comparable.push(name.clone());
                }
                only_a.push(name);
            }
        }
    }
    let mut notes = notes(a, b);
    let of_metric = |metric: &Metric| Control::of(metric, &both, a, b);
    let controls: Vec<Control> = metrics(kind).iter().map(of_metric).collect();
    let mut rows: Vec<Pair> = Vec::new();
    for (name, a_row, b_row) in &both {
        let with_figures = metrics(kind).iter().enumerate();
        // A quantity beside the main one is skipped if neither run has it.
        let with_figures =
            with_figures.filter(|(n, m)| *n == 0 || has_figure(m, a_row) || has_figure(m, b_row));
        for (n, metric) in with_figures {
            let name = match metric.beside {
                "" => name.clone(),
                of => format!("{name}, {of}"),
            };
            match metric.amount.and_then(|flag| differs(flag, a, b)) {
                None => rows.push(pair(metric, name, a_row, b_row, &controls[n])),
                Some(why) => {
                    not_comparable.push(name);
                    if !notes.contains(&why) {
                        notes.push(why);
                    }
                }
            }
        }
    }
    let lacks = |row: &&Row| find(&a.rows, &key(row)).is_none();
    let only_b = b.rows.iter().filter(lacks).map(key).collect();
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
        unit: metrics(kind)[0].unit,
        names: [clean(a_name), clean(b_name)],
        started: [a, b].map(|d| d.started.clone()),
        commands: [a, b].map(|d| d.command.clone()),
        notes,
        control: controls[0],
        rows,
        only_a,
        only_b,
        details: detail::details(kind, &both),
        not_comparable,
        kind,
    })
}

impl Comparison {
    /// Returns the number of rows with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|p| p.verdict == verdict).count()
    }
}

/// Returns a sentence if the command lines set the flag, on which the figure depends, to different numbers.
fn differs((flag, usual): (&str, u64), a: &Document, b: &Document) -> Option<String> {
    let of = |d: &Document| amount(&d.command, flag).unwrap_or(usual);
    let (of_a, of_b) = (of(a), of(b));
    (of_a != of_b).then(|| {
        format!(
            "A was run with {flag} {of_a} and B with {flag} {of_b}: their times are not compared."
        )
    })
}

/// Returns the value of a flag in a command line.
fn amount(command: &str, flag: &str) -> Option<u64> {
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        let value = match word.strip_prefix(flag) {
            Some("") => words.next()?,
            Some(rest) => match rest.strip_prefix('=') {
                Some(value) => value,
                None => continue,
            },
            None => continue,
        };
        return value.parse().ok();
    }
    None
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
    let (of_a, of_b) = (a.machine.told(), b.machine.told());
    let told = |of: &[(&str, String)], field: &str| {
        let found = of.iter().find(|(name, _)| *name == field);
        found.map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let differs = MACHINE.iter().filter_map(|field| {
        let (a, b) = (told(&of_a, field), told(&of_b, field));
        (a != b).then(|| format!("{} ({a} and {b})", field.replace('_', " ")))
    });
    let differs: Vec<String> = differs.collect();
    if !differs.is_empty() {
        notes.push(format!("The machines differ in {}.", differs.join(", ")));
    }
    for (name, document) in [("A", a), ("B", b)] {
        if document.interrupted {
            notes.push(format!(
                "{name} was interrupted: its figures cover only the time before that."
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn an_amount_is_read_from_a_command() {
        for (command, found) in [
            ("logforce bench inserts --pairs 100 --dir x", Some(100)),
            ("logforce bench inserts --dir x --pairs=7", Some(7)),
            ("logforce bench inserts --pairs-of 7", None),
            ("logforce bench inserts --pairs", None),
            ("", None),
        ] {
            assert_eq!(amount(command, "--pairs"), found, "{command}");
        }
    }
}
