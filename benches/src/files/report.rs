//! Reports of a comparison: text and JSON.

use super::case::{Case, Subject, series};
use super::{FileOutcome, Workload};
use crate::target::{Target, number, ratio};
use logforce_measure::group::{self, DEVICE, SeriesPoint, columns};
use logforce_measure::machine::Machine;
use logforce_measure::run::stats::Spread;
use logforce_measure::{MeasureError, Row};
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;

/// One run.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// The command line.
    pub command: String,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// Machine, filesystem and disk.
    pub machine: Machine,
    /// Method of the baseline.
    pub method: String,
    /// Guarantee of a force.
    pub guarantee: String,
    /// Verdict on the guarantee.
    pub verdict: String,
    /// Targets and whether they were met.
    pub targets: Vec<Target>,
    /// Measured rows.
    pub rows: Vec<FileRow>,
}

/// One subject in one case. Values that do not apply are `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FileRow {
    /// Name of the workload.
    pub workload: &'static str,
    /// Subject of the row.
    pub subject: Option<Subject>,
    /// Commits divided by forces: writes to the medium and barriers.
    pub commits_per_force: Option<f64>,
    /// Commits/s divided by those of one `fdatasync` per commit, round by round: median.
    pub to_sync_each: Option<f64>,
    /// 10th percentile.
    pub to_sync_each_p10: Option<f64>,
    /// 90th percentile.
    pub to_sync_each_p90: Option<f64>,
    /// Commits/s divided by those of the group commit by hand, round by round: median.
    pub to_by_hand: Option<f64>,
    /// 10th percentile.
    pub to_by_hand_p10: Option<f64>,
    /// 90th percentile.
    pub to_by_hand_p90: Option<f64>,
    /// Values that every subject has.
    #[serde(flatten)]
    pub measured: Row,
}

impl FileRow {
    /// Returns the row of a workload that failed.
    pub(super) fn failed(workload: Workload, error: &MeasureError) -> FileRow {
        FileRow {
            workload: workload.name(),
            measured: group::failed(error),
            ..FileRow::default()
        }
    }

    /// Returns the row of `case`, which is compared with the others of the same number of threads.
    pub(super) fn measured(workload: Workload, case: &Case, all: &[Case]) -> FileRow {
        let row = group::measured(&case.series);
        let parts = |s: Option<Spread>| (s.map(|s| s.median), s.map(|s| s.p10), s.map(|s| s.p90));
        let rate: fn(&SeriesPoint) -> f64 = |p| p.rate;
        let to = |other: Subject| {
            let other = series(all, other, case.threads).filter(|_| other != case.subject);
            parts(other.and_then(|o| case.series.ratio(o, rate)))
        };
        let (to_sync_each, to_sync_each_p10, to_sync_each_p90) = to(Subject::SyncEach);
        let (to_by_hand, to_by_hand_p10, to_by_hand_p90) = to(Subject::ByHand);
        FileRow {
            workload: workload.name(),
            subject: Some(case.subject),
            commits_per_force: row.forces_per_commit.map(f64::recip),
            to_sync_each,
            to_sync_each_p10,
            to_sync_each_p90,
            to_by_hand,
            to_by_hand_p10,
            to_by_hand_p90,
            measured: group::of(row, case.threads, workload.size()),
        }
    }

    fn title(&self) -> String {
        if self.measured.threads == 0 {
            return format!("{}:", self.workload);
        }
        let threads = count(self.measured.threads, "thread");
        let size = bytes(self.measured.record_bytes);
        format!("{}, {threads} of {size}:", self.workload)
    }
}

impl AsRef<Row> for FileRow {
    fn as_ref(&self) -> &Row {
        &self.measured
    }
}

fn shown() -> Vec<Column<FileRow>> {
    let mut shown = vec![Column::text("", 0, |r: &FileRow| {
        r.subject.map_or("n/a", Subject::name).to_owned()
    })];
    shown.extend(columns());
    shown.push(Column::number("commits\na force", 0, |r| {
        number(r.commits_per_force)
    }));
    shown.push(Column::number("× sync-each", 0, |r| {
        ratio(r.to_sync_each, r.to_sync_each_p10, r.to_sync_each_p90)
    }));
    shown.push(Column::number("× by-hand", 0, |r| {
        ratio(r.to_by_hand, r.to_by_hand_p10, r.to_by_hand_p90)
    }));
    shown
}

const NOTES: &str = "Slices take turns; commits/s: median of all slices; ×: commits/s divided by \
    those of the other subject in the same round, median, and in brackets 10th to 90th percentile. \
    Latencies cover all commits together. Forces: writes to the medium and barriers, counted where the \
    subjects call the system.";
const SUBJECTS: &str = "write-commit: File::write_commit. commit: File::write_at, then File::commit. \
    sync-each: each thread writes and calls fdatasync. by-hand: each thread writes, one calls fdatasync \
    for all that wait. baseline: one mutex; the first thread to arrive writes everything staged. All write \
    into prepared files, past the system's cache in `aligned` if the files of the library do.";

/// Returns the report for a terminal of `width` characters.
pub fn text(outcome: &FileOutcome, machine: &Machine, width: usize) -> String {
    let worth = &outcome.assessment;
    let title = format!(
        "Durable files ({}, {}), baseline by {}; {machine}",
        worth.granted(),
        worth.verdict,
        outcome.method
    );
    let mut text = wrap(&title, width, 0);
    text.push('\n');
    if outcome.interrupted {
        text.push_str("Interrupted: only complete rounds are shown.\n\n");
    }
    let measured: Vec<_> = outcome
        .rows
        .iter()
        .filter(|r| r.subject.is_some())
        .collect();
    let rows = measured.iter().map(|r| (r.title(), (*r).clone()));
    let (table, left_out) = fitted(&shown(), &sections(rows), width);
    if !measured.is_empty() {
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
    if measured.is_empty() {
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
    text.push_str(&wrap(SUBJECTS, width, 2));
    let has_device = |r: &&FileRow| r.measured.device_writes_per_commit.is_some();
    if measured.iter().any(has_device) {
        text.push_str(&wrap(DEVICE, width, 2));
    }
    text
}
