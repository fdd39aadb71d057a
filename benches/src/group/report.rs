//! What a comparison says, for people and as data.

use super::targets::Target;
use super::{GroupOutcome, Part};
use crate::target::between;
use logforce_measure::group::{self, DEVICE, Series, SeriesPoint, columns};
use logforce_measure::machine::Machine;
use logforce_measure::run::stats::Spread;
use logforce_measure::{MeasureError, Row};
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{bytes, count, short};
use serde::Serialize;

/// One run.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// The command line.
    pub command: String,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// What it ran on.
    pub machine: Machine,
    /// How a force was done.
    pub method: String,
    /// What a force was worth.
    pub guarantee: String,
    /// How far that is to be believed.
    pub verdict: String,
    /// What was aimed at.
    pub targets: Vec<Target>,
    /// What was measured.
    pub rows: Vec<GroupRow>,
}

/// Who does the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The log; each thread waits for each of its commits.
    Log,
    /// A simple group commit on the same device code.
    Baseline,
    /// Bare calls, as many threads.
    Raw,
    /// The log; each thread keeps handles and waits for the oldest.
    Handles,
    /// The log; it calls back.
    Callbacks,
    /// The log, segments being prepared meanwhile.
    Preparing,
    /// The log, nothing being prepared.
    Prepared,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::Log => "log",
            Subject::Baseline => "baseline",
            Subject::Raw => "raw",
            Subject::Handles => "handles",
            Subject::Callbacks => "callbacks",
            Subject::Preparing => "preparing",
            Subject::Prepared => "prepared",
        }
    }
}

/// One subject in one case. What does not apply is `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupRow {
    /// Name of the part.
    pub part: &'static str,
    /// Who did it.
    pub subject: Option<Subject>,
    /// Commits in flight at a time, of all threads together.
    pub outstanding: u32,
    /// Bytes of a write of the raw loop.
    pub written_bytes: Option<u64>,
    /// Size of the segments that were prepared meanwhile, bytes.
    pub segment_bytes: Option<u64>,
    /// Records that were found when the log was opened again, in all of them.
    pub reopened_records: Option<u64>,
    /// Of the time, how much went into calls that prepare segments.
    pub preparing_share: Option<f64>,
    /// Bytes written to segments that were being prepared, per second.
    pub prepared_bytes_per_s: Option<f64>,
    /// Commits/s to the baseline's, pair by pair: median.
    pub to_baseline: Option<f64>,
    /// A tenth lies below.
    pub to_baseline_p10: Option<f64>,
    /// A tenth lies above.
    pub to_baseline_p90: Option<f64>,
    /// Commits/s to the raw loop's, pair by pair: median.
    pub to_raw: Option<f64>,
    /// A tenth lies below.
    pub to_raw_p10: Option<f64>,
    /// A tenth lies above.
    pub to_raw_p90: Option<f64>,
    /// What is measured of every subject.
    #[serde(flatten)]
    pub measured: Row,
}

impl GroupRow {
    fn new(part: Part, subject: Option<Subject>, measured: Row) -> GroupRow {
        GroupRow {
            part: part.name(),
            subject,
            measured,
            ..GroupRow::default()
        }
    }

    /// A part, or a case of it, that failed.
    pub(super) fn failed(part: Part, error: &MeasureError) -> GroupRow {
        GroupRow::new(part, None, group::failed(error))
    }

    pub(super) fn measured(part: Part, subject: Subject, series: &Series) -> GroupRow {
        GroupRow::new(part, Some(subject), group::measured(series))
    }

    /// Of so many threads, commits in flight, and bytes of a record.
    pub(super) fn of(self, threads: u32, outstanding: u32, record_bytes: u64) -> GroupRow {
        GroupRow {
            outstanding,
            measured: group::of(self.measured, threads, record_bytes),
            ..self
        }
    }

    pub(super) fn compare_to(&mut self, own: &Series, baseline: &Series, raw: &Series) {
        let rate: fn(&SeriesPoint) -> f64 = |p| p.rate;
        let parts = |s: Option<Spread>| (s.map(|s| s.median), s.map(|s| s.p10), s.map(|s| s.p90));
        let to_baseline = parts(own.ratio(baseline, rate));
        (self.to_baseline, self.to_baseline_p10, self.to_baseline_p90) = to_baseline;
        (self.to_raw, self.to_raw_p10, self.to_raw_p90) = parts(own.ratio(raw, rate));
    }

    fn title(&self) -> String {
        if self.measured.threads == 0 {
            return format!("{}:", self.part);
        }
        let threads = count(self.measured.threads, "thread");
        let size = bytes(self.measured.record_bytes);
        match self.part {
            "submit" => format!(
                "submit, {threads} of {size}, {} in flight in all:",
                self.outstanding
            ),
            "preparing" => format!("{threads} of {size}, segments prepared meanwhile or not:"),
            _ => format!("{threads} of {size}:"),
        }
    }
}

impl AsRef<Row> for GroupRow {
    fn as_ref(&self) -> &Row {
        &self.measured
    }
}

fn ratio(value: Option<f64>, p10: Option<f64>, p90: Option<f64>) -> String {
    match value {
        Some(value) => format!("{}{}", short(value, 2), between(p10, p90)),
        None => String::new(),
    }
}

fn shown() -> Vec<Column<GroupRow>> {
    let mut shown = vec![Column::text("", 0, |r: &GroupRow| {
        r.subject.map_or("n/a", Subject::name).to_owned()
    })];
    shown.extend(columns());
    shown.push(Column::number("× baseline", 0, |r| {
        ratio(r.to_baseline, r.to_baseline_p10, r.to_baseline_p90)
    }));
    shown.push(Column::number("× raw", 4, |r| {
        ratio(r.to_raw, r.to_raw_p10, r.to_raw_p90)
    }));
    shown
}

const NOTES: &str = "Slices take turns; commits/s: the median of all slices; ×: commits/s to the \
    baseline's and to the raw loop's in the same turn, medians, and in brackets where 8 of 10 lie. \
    Latencies are those of all commits together. Records a write: commits by the writes that \
    carried them, counted where the log, the baseline and the raw loop hand them to the system; \
    forces: writes to the medium and barriers.";
const BASELINE: &str = "baseline: one mutex, one notify_all; the first thread to come writes all that is \
    staged. raw: each thread writes its record by itself, padded to the write unit (one thread: \
    to what the log writes), in a region of its own of a file filled with zeroes.";
const SUBMIT: &str = "submit: each thread keeps its share of the records in flight and waits for \
    the oldest (handles), or for the next to be called back (callbacks). After each slice the log \
    was closed and opened again: each thread's records were there, in order, as many as were \
    completed. There is no baseline: the simple group commit has nobody who does not wait.";

/// All of it for a terminal of `width` characters.
pub fn text(outcome: &GroupOutcome, machine: &Machine, width: usize) -> String {
    let mut text = wrap(
        &format!(
            "Group commit, by {} ({}, {}); {machine}",
            outcome.method,
            outcome.assessment.granted(),
            outcome.assessment.verdict
        ),
        width,
        0,
    );
    text.push('\n');
    if outcome.interrupted {
        let message = "Interrupted: this is what was measured until then, in whole pairs.\n\n";
        text.push_str(message);
    }
    let rows = outcome.rows.iter().filter(|r| r.measured.error.is_none());
    let rows = sections(rows.map(|r| (r.title(), r.clone())));
    let (table, left_out) = fitted(&shown(), &rows, width);
    let has = |part: Part| outcome.rows.iter().any(|r| r.part == part.name());
    let measured = outcome.rows.iter().any(|r| r.measured.error.is_none());
    if measured {
        text.push_str(&table);
        text.push('\n');
    }
    for row in &outcome.rows {
        if let Some(error) = &row.measured.error {
            text.push_str(&wrap(&format!("{} n/a: {error}", row.title()), width, 2));
        }
    }
    for target in &outcome.targets {
        text.push_str(&wrap(&target.text(), width, 4));
    }
    if !measured {
        return text;
    }
    text.push('\n');
    if !left_out.is_empty() {
        let line = format!(
            "left out on this narrow terminal (--json has them): {}.",
            left_out.join(", ")
        );
        text.push_str(&wrap(&line, width, 2));
    }
    text.push_str(&wrap(NOTES, width, 2));
    if has(Part::Commits) {
        text.push_str(&wrap(BASELINE, width, 2));
    }
    if has(Part::Submit) {
        text.push_str(&wrap(SUBMIT, width, 2));
    }
    if outcome
        .rows
        .iter()
        .any(|r| r.measured.device_writes_per_commit.is_some())
    {
        text.push_str(&wrap(DEVICE, width, 2));
    }
    text
}
