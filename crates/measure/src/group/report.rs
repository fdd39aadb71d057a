//! What was measured, for people and as data. Field names are kept compatible; see
//! `docs/cli-json.md`.

use super::{Outcome, Series};
use crate::MeasureError;
use crate::distribution::Distribution;
use crate::head::Head;
use crate::layout::{Column, fitted, sections, wrap};
use crate::machine::Machine;
use crate::numbers::{bytes, count, number, range};
use crate::prose::{self, INTERRUPTED};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-group";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What it begins with: [`SCHEMA`], [`VERSION`].
    #[serde(flatten)]
    pub head: Head,
    /// How a force was done.
    pub method: String,
    /// What a force was worth.
    pub guarantee: String,
    /// How far that is to be believed.
    pub verdict: String,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// One case.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// Threads.
    pub threads: u32,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Slices.
    pub slices: u64,
    /// Commits in all of them.
    pub commits: u64,
    /// Median of the slices.
    pub commits_per_s: Option<f64>,
    /// A tenth of the slices lies below.
    pub commits_per_s_p10: Option<f64>,
    /// A tenth of the slices lies above.
    pub commits_per_s_p90: Option<f64>,
    /// Median latency of all commits, microseconds.
    pub p50_us: Option<f64>,
    /// 90 of 100 commits took no longer, microseconds.
    pub p90_us: Option<f64>,
    /// 99 of 100 commits took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// 999 of 1000 commits took no longer, microseconds.
    pub p999_us: Option<f64>,
    /// The longest commit, microseconds.
    pub max_us: Option<f64>,
    /// How the latencies of all commits are distributed.
    pub latencies_us: Option<Distribution>,
    /// What each write carried: commits by writes.
    pub records_per_write: Option<f64>,
    /// Bytes of a write, headers and padding included.
    pub bytes_per_write: Option<f64>,
    /// Writes to the medium and barriers, by commits.
    pub forces_per_commit: Option<f64>,
    /// Writes that the block device completed, by commits; neighbours' count too.
    pub device_writes_per_commit: Option<f64>,
    /// Cache flushes likewise.
    pub device_flushes_per_commit: Option<f64>,
    /// Why there are no numbers.
    pub error: Option<String>,
}

impl Row {
    /// A case that failed.
    pub fn failed(error: &MeasureError) -> Row {
        Row {
            error: Some(error.to_string()),
            ..Row::default()
        }
    }

    /// From all slices of a case.
    pub fn measured(series: &Series) -> Row {
        let rate = series.spread(|p| p.rate);
        let (latencies, counts) = (&series.latencies, series.counts);
        let by = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
        let commits = series.commits();
        Row {
            slices: series.points.len() as u64,
            commits,
            commits_per_s: rate.map(|s| s.median),
            commits_per_s_p10: rate.map(|s| s.p10),
            commits_per_s_p90: rate.map(|s| s.p90),
            p50_us: Some(latencies.quantile_us(0.5)),
            p90_us: Some(latencies.quantile_us(0.9)),
            p99_us: Some(latencies.quantile_us(0.99)),
            p999_us: Some(latencies.quantile_us(0.999)),
            max_us: Some(latencies.max_us()),
            latencies_us: Distribution::of(latencies),
            records_per_write: by(commits, counts.writes),
            bytes_per_write: by(counts.bytes, counts.writes),
            forces_per_commit: by(counts.forces(), commits),
            device_writes_per_commit: series.device.and_then(|d| by(d.writes, commits)),
            device_flushes_per_commit: series
                .device
                .and_then(|d| d.flushes)
                .and_then(|n| by(n, commits)),
            ..Row::default()
        }
    }

    /// Of so many threads, and bytes of a record.
    pub fn of(self, threads: u32, record_bytes: u64) -> Row {
        Row {
            threads,
            record_bytes,
            ..self
        }
    }

    fn title(&self) -> String {
        format!("records of {}:", bytes(self.record_bytes))
    }
}

impl AsRef<Row> for Row {
    fn as_ref(&self) -> &Row {
        self
    }
}

/// What is shown of every row that is measured so.
pub fn columns<R: AsRef<Row>>() -> Vec<Column<R>> {
    vec![
        Column::number("commits\nper s", 0, |r: &R| {
            number(r.as_ref().commits_per_s, 0)
        }),
        Column::number("8 of 10\nslices", 5, |r: &R| {
            let r = r.as_ref();
            range(r.commits_per_s_p10, r.commits_per_s_p90, 0)
        }),
        Column::number("p50\nµs", 0, |r: &R| number(r.as_ref().p50_us, 1)),
        Column::number("p99\nµs", 0, |r: &R| number(r.as_ref().p99_us, 1)),
        Column::number("p99.9\nµs", 1, |r: &R| number(r.as_ref().p999_us, 1)),
        Column::number("max\nµs", 6, |r: &R| number(r.as_ref().max_us, 1)),
        Column::number("records\na write", 0, |r: &R| {
            number(r.as_ref().records_per_write, 2)
        }),
        Column::number("KiB a\nwrite", 2, |r: &R| {
            number(r.as_ref().bytes_per_write.map(|b| b / 1024.0), 2)
        }),
        Column::number("forces a\ncommit", 3, |r: &R| {
            number(r.as_ref().forces_per_commit, 3)
        }),
        Column::number("dev*\nwrites", 8, |r: &R| {
            number(r.as_ref().device_writes_per_commit, 3)
        }),
        Column::number("dev*\nflush", 7, |r: &R| {
            number(r.as_ref().device_flushes_per_commit, 3)
        }),
        Column::number("commits", 9, |r: &R| r.as_ref().commits.to_string()),
    ]
}

const NOTES: &str = "In each round every row has a slice; commits/s: the median of all slices. \
    Latencies are those of all commits together. Records a write: commits by the writes that \
    carried them, counted where the log hands them to the system; forces: writes to the medium \
    and barriers.";
/// Of the columns with a star.
pub const DEVICE: &str =
    "dev*: by the block device's own counters, what neighbours do to it included.";

/// All of it for a terminal of `width` characters.
pub fn text(outcome: &Outcome, machine: &Machine, width: usize) -> String {
    let mut text = wrap(
        &format!(
            "Commits to the log, by {} ({}, {}); {machine}",
            outcome.method,
            outcome.assessment.granted(),
            outcome.assessment.verdict
        ),
        width,
        0,
    );
    text.push('\n');
    if outcome.interrupted {
        text.push_str(INTERRUPTED);
        text.push('\n');
    }
    let rows = outcome.rows.iter().filter(|r| r.error.is_none());
    let mut shown = vec![Column::text("", 0, |r: &Row| count(r.threads, "thread"))];
    shown.extend(columns());
    let (table, left_out) = fitted(
        &shown,
        &sections(rows.map(|r| (r.title(), r.clone()))),
        width,
    );
    let measured = outcome.rows.iter().any(|r| r.error.is_none());
    if measured {
        text.push_str(&table);
        text.push('\n');
    }
    for row in &outcome.rows {
        if let Some(error) = &row.error {
            let threads = count(row.threads, "thread");
            let size = bytes(row.record_bytes);
            text.push_str(&wrap(
                &format!("{threads} of {size}: n/a: {error}"),
                width,
                2,
            ));
        }
    }
    if !measured {
        return text;
    }
    text.push_str(&prose::left_out(&left_out, width));
    text.push_str(&wrap(NOTES, width, 2));
    if outcome
        .rows
        .iter()
        .any(|r| r.device_writes_per_commit.is_some())
    {
        text.push_str(&wrap(DEVICE, width, 2));
    }
    text
}
