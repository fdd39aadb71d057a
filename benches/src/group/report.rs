//! Reports of a comparison: text and JSON.

use super::{GroupOutcome, Part};
use crate::target::{Target, ratio};
use logforce_measure::group::{self, DEVICE, Series, SeriesPoint, columns};
use logforce_measure::machine::Machine;
use logforce_measure::run::stats::Spread;
use logforce_measure::{MeasureError, Row};
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;

/// One run.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// The command line.
    pub command: String,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// Machine, filesystem and disk.
    pub machine: Machine,
    /// Method used for forces.
    pub method: String,
    /// Guarantee of a force.
    pub guarantee: String,
    /// Verdict on the guarantee.
    pub verdict: String,
    /// Targets and whether they were met.
    pub targets: Vec<Target>,
    /// Measured rows.
    pub rows: Vec<GroupRow>,
}

/// Subjects: programs that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The log; each thread waits for each of its commits.
    Log,
    /// A simple group commit on the same device code.
    Baseline,
    /// Bare calls by the same number of threads.
    Raw,
    /// The log; each thread keeps commit handles and waits for the oldest.
    Handles,
    /// The log; completions arrive by callback.
    Callbacks,
    /// The log, with segments being prepared in the background.
    Preparing,
    /// The log, without preparation in the background.
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

/// One subject in one case. Values that do not apply are `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupRow {
    /// Name of the part.
    pub part: &'static str,
    /// Subject of the row.
    pub subject: Option<Subject>,
    /// Commits in flight at a time, all threads together.
    pub outstanding: u32,
    /// Bytes per write of the raw loop.
    pub written_bytes: Option<u64>,
    /// Size of the segments prepared in the background, bytes.
    pub segment_bytes: Option<u64>,
    /// Records found when the log was reopened, sum of all slices.
    pub reopened_records: Option<u64>,
    /// Share of the time spent in calls that prepare segments.
    pub preparing_share: Option<f64>,
    /// Bytes per second written to segments under preparation.
    pub prepared_bytes_per_s: Option<f64>,
    /// Commits/s divided by the baseline's, pair by pair: median.
    pub to_baseline: Option<f64>,
    /// 10th percentile.
    pub to_baseline_p10: Option<f64>,
    /// 90th percentile.
    pub to_baseline_p90: Option<f64>,
    /// Commits/s divided by the raw loop's, pair by pair: median.
    pub to_raw: Option<f64>,
    /// 10th percentile.
    pub to_raw_p10: Option<f64>,
    /// 90th percentile.
    pub to_raw_p90: Option<f64>,
    /// Values that every subject has.
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

    /// Sets the number of threads, the commits in flight and the record size (bytes).
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

const NOTES: &str = "Slices take turns; commits/s: median of all slices; ×: commits/s divided by the \
    baseline's and by the raw loop's in the same turn, median, and in brackets 10th to 90th percentile. \
    Latencies cover all commits together. Records a write: commits divided by writes, counted where the \
    log, the baseline and the raw loop call the system; forces: writes to the medium and barriers.";
const BASELINE: &str = "baseline: one mutex, one notify_all; the first thread to arrive writes everything \
    staged. raw: each thread writes its own record, padded to the write unit (with one thread: to \
    the log's write size), in a separate region of a zero-filled file.";
const SUBMIT: &str = "submit: each thread keeps its share of the records in flight and waits for \
    the oldest (handles) or for the next callback (callbacks). After each slice the log was closed \
    and reopened, and it contained exactly the completed records of each thread, in order. There is no \
    baseline: with the simple group commit every thread waits.";

/// Returns the report for a terminal of `width` characters.
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
        let message = "Interrupted: only complete pairs are shown.\n\n";
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
            "columns left out on this narrow terminal (see --json): {}.",
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
