//! What was measured, for people and as data. Field names are kept compatible; see
//! `docs/bench-json.md`.

use super::series::Series;
use super::{MapMethod, Outcome, P4};
use crate::distribution::Distribution;
use crate::layout::{Column, empty_table, finish, fitted, sections, wrap};
use crate::numbers::{bytes, count, number, range};
use crate::report::as_name;
use crate::survives::survives;
use crate::{MeasureError, head, prose};
use logforce_device::{Assessment, Guarantee, Verdict};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-bench-map";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
pub type Report = head::Report<Row>;

/// One size by one method.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Size of the file, bytes.
    pub file_bytes: u64,
    /// How a commit is made.
    pub method: MapMethod,
    /// Slices.
    pub slices: u64,
    /// Commits in all of them.
    pub commits: u64,
    /// Median of the slices, what commits leave to be done later included.
    pub ms_per_commit: Option<f64>,
    /// A tenth of the slices lies below.
    pub ms_per_commit_p10: Option<f64>,
    /// A tenth of the slices lies above.
    pub ms_per_commit_p90: Option<f64>,
    /// Median latency of all commits, microseconds.
    pub p50_us: Option<f64>,
    /// 99 of 100 commits took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// The longest commit, microseconds.
    pub max_us: Option<f64>,
    /// How the latencies of all commits are distributed.
    pub latencies_us: Option<Distribution>,
    /// Processor time that the system took for the process, microseconds.
    pub system_us_per_commit: Option<f64>,
    /// Processor time of the process's own code, microseconds.
    pub user_us_per_commit: Option<f64>,
    /// Time of a commit as a multiple of that of `msync-all`, median of the rounds.
    pub ratio: Option<f64>,
    /// A tenth of the rounds lies below.
    pub ratio_p10: Option<f64>,
    /// A tenth of the rounds lies above.
    pub ratio_p90: Option<f64>,
    /// The system's processor time likewise, of all rounds.
    pub system_ratio: Option<f64>,
    /// Ranges of the mapping that were synced, by commits.
    pub msyncs_per_commit: Option<f64>,
    /// Writes, by commits.
    pub writes_per_commit: Option<f64>,
    /// Writes that are durable by themselves, by commits.
    pub through_per_commit: Option<f64>,
    /// Barriers, by commits.
    pub barriers_per_commit: Option<f64>,
    /// Writes that the block device completed, by commits; neighbours' count too.
    pub device_writes_per_commit: Option<f64>,
    /// Cache flushes likewise.
    pub device_flushes_per_commit: Option<f64>,
    /// What a commit survives.
    #[serde(serialize_with = "as_name")]
    pub guarantee: Option<Guarantee>,
    /// How far that is to be believed.
    #[serde(serialize_with = "as_name")]
    pub verdict: Option<Verdict>,
    /// Why.
    pub evidence: Option<String>,
    /// Why there are no numbers.
    pub error: Option<String>,
}

impl Row {
    fn empty() -> Row {
        Row {
            file_bytes: 0,
            method: MapMethod::MsyncAll,
            slices: 0,
            commits: 0,
            ms_per_commit: None,
            ms_per_commit_p10: None,
            ms_per_commit_p90: None,
            p50_us: None,
            p99_us: None,
            max_us: None,
            latencies_us: None,
            system_us_per_commit: None,
            user_us_per_commit: None,
            ratio: None,
            ratio_p10: None,
            ratio_p90: None,
            system_ratio: None,
            msyncs_per_commit: None,
            writes_per_commit: None,
            through_per_commit: None,
            barriers_per_commit: None,
            device_writes_per_commit: None,
            device_flushes_per_commit: None,
            guarantee: None,
            verdict: None,
            evidence: None,
            error: None,
        }
    }

    /// A case that failed, or that the system does not have.
    pub fn failed(error: &MeasureError) -> Row {
        Row {
            error: Some(error.to_string()),
            ..Row::empty()
        }
    }

    /// From all slices of a case; ratios are to `base`.
    pub(super) fn measured(
        series: &Series,
        base: Option<&Series>,
        assessment: Option<&Assessment>,
    ) -> Row {
        let ms = series.ms();
        let latencies = series.latencies();
        let ratio = base.and_then(|b| series.ratio(b));
        let system = series.cpu_us(|c| c.system);
        let base_system = base.and_then(|b| b.cpu_us(|c| c.system));
        Row {
            slices: series.points.len() as u64,
            commits: series.commits(),
            ms_per_commit: ms.map(|s| s.median),
            ms_per_commit_p10: ms.map(|s| s.p10),
            ms_per_commit_p90: ms.map(|s| s.p90),
            p50_us: Some(latencies.quantile_us(0.5)),
            p99_us: Some(latencies.quantile_us(0.99)),
            max_us: Some(latencies.max_us()),
            latencies_us: Distribution::of(&latencies),
            system_us_per_commit: system,
            user_us_per_commit: series.cpu_us(|c| c.user),
            ratio: ratio.map(|s| s.median),
            ratio_p10: ratio.map(|s| s.p10),
            ratio_p90: ratio.map(|s| s.p90),
            system_ratio: system
                .zip(base_system)
                .filter(|(_, base)| *base > 0.0)
                .map(|(own, base)| own / base),
            msyncs_per_commit: series.by_commit(|p| Some(p.calls.msyncs)),
            writes_per_commit: series.by_commit(|p| Some(p.calls.writes)),
            through_per_commit: series.by_commit(|p| Some(p.calls.through)),
            barriers_per_commit: series.by_commit(|p| Some(p.calls.barriers)),
            device_writes_per_commit: series.device(|d| Some(d.writes)),
            device_flushes_per_commit: series.device(|d| d.flushes),
            guarantee: assessment.map(|a| a.guarantee),
            verdict: assessment.map(|a| a.verdict),
            evidence: assessment.map(|a| a.evidence.clone()),
            ..Row::empty()
        }
    }

    /// Of this size and method.
    pub fn of(self, file_bytes: u64, method: MapMethod) -> Row {
        let mut row = Row {
            file_bytes,
            method,
            ..self
        };
        if method.is_ours() {
            // Its calls are not made through what counts.
            row.msyncs_per_commit = None;
            row.writes_per_commit = None;
            row.through_per_commit = None;
            row.barriers_per_commit = None;
        }
        row
    }

    fn survives(&self) -> String {
        survives(self.guarantee, self.verdict)
    }
}

const COLUMNS: [Column<Row>; 13] = [
    Column::text("method", 0, |r| r.method.to_string()),
    Column::number("ms per\ncommit", 0, |r| match r.error {
        Some(_) => "n/a".to_owned(),
        None => number(r.ms_per_commit, 3),
    }),
    Column::number("8 of 10\nslices", 3, |r| {
        range(r.ms_per_commit_p10, r.ms_per_commit_p90, 2)
    }),
    Column::number("ratio", 0, |r| number(r.ratio, 2)),
    Column::number("p50\nµs", 4, |r| number(r.p50_us, 1)),
    Column::number("p99\nµs", 5, |r| number(r.p99_us, 1)),
    Column::number("system\nCPU µs", 0, |r| number(r.system_us_per_commit, 1)),
    Column::number("ratio", 0, |r| number(r.system_ratio, 2)),
    Column::number("user\nCPU µs", 6, |r| number(r.user_us_per_commit, 1)),
    Column::number("dev*\nwrites", 2, |r| number(r.device_writes_per_commit, 1)),
    Column::number("dev*\nflush", 1, |r| number(r.device_flushes_per_commit, 1)),
    Column::number("commits", 7, |r| r.commits.to_string()),
    Column::text("survives", 0, Row::survives),
];

/// What the reader should know of how it was measured.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![format!(
        "A commit changes {} of 4 KiB anywhere in the file, all of each, and makes them durable; then \
         one page that makes them count, which is made durable as well (our page files have a header \
         for that).",
        count(outcome.pages, "page")
    )];
    notes.push(
        "msync-all, msync-ranges: changed in a mapping of the file; all of it, or each run of changed \
         pages, is synced until it is durable. gathered+barrier: sorted runs, written one after the \
         other through the system's cache, then one barrier. in-flight: up to 8 of them at once, then \
         one barrier, or each durable by itself (write-through), as was published. copy-on-write, \
         logged: our page files, 4 KiB, checksums on."
            .to_owned(),
    );
    notes.push(
        "System CPU: processor time of the whole process in the system, its background threads \
         included, all slices by all commits. Of logged files the checkpoint at the end of each slice, \
         which writes the pages to their places, is in the time and in the processor time of its \
         commits, not in p50 and p99."
            .to_owned(),
    );
    for row in &outcome.rows {
        if let Some(error) = &row.error {
            let size = bytes(row.file_bytes);
            notes.push(format!("{} n/a at {size}: {error}.", row.method));
        }
    }
    let with_evidence = outcome.rows.iter().find(|r| r.evidence.is_some());
    if let Some(row) = with_evidence {
        let evidence = row.evidence.as_deref().unwrap_or_default();
        notes.push(format!(
            "{} survives {}: {evidence}.",
            row.method,
            row.survives()
        ));
    }
    notes.push(P4.sentence());
    notes
}

/// How time and processor time of each method grow with the size of the file.
fn growth(rows: &[Row]) -> String {
    let mut sizes: Vec<u64> = rows.iter().map(|r| r.file_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |method: MapMethod, size: u64| {
        let is_it = |r: &&Row| r.method == method && r.file_bytes == size;
        rows.iter().find(is_it)
    };
    let mut table = empty_table();
    let mut header = vec!["method".to_owned()];
    for what in ["ms", "system µs"] {
        header.extend(sizes.iter().map(|s| format!("{what}\n{}", bytes(*s))));
        header.push("grows\n×".to_owned());
    }
    table.set_header(header);
    for method in MapMethod::ALL {
        let mut cells = vec![method.to_string()];
        let of_time: fn(&Row) -> Option<f64> = |r| r.ms_per_commit;
        let of_system: fn(&Row) -> Option<f64> = |r| r.system_us_per_commit;
        for (figure, decimals) in [(of_time, 3), (of_system, 1)] {
            let values: Vec<Option<f64>> = sizes
                .iter()
                .map(|size| of(method, *size).and_then(figure))
                .collect();
            cells.extend(values.iter().map(|v| number(*v, decimals)));
            let (first, last) = (
                values.first().copied().flatten(),
                values.last().copied().flatten(),
            );
            let grows = first.zip(last).filter(|(first, _)| *first > 0.0);
            cells.push(number(grows.map(|(first, last)| last / first), 2));
        }
        if cells.iter().skip(1).any(|c| c != "-") {
            table.add_row(cells);
        }
    }
    finish(table, &[0], 2)
}

/// All of it for a terminal of `width` characters.
pub fn text(report: &Report, width: usize) -> String {
    let mut text = prose::title("Small commits to large files", &report.head, width);
    let titled = report.rows.iter();
    let titled = titled.map(|r| (format!("file of {}:", bytes(r.file_bytes)), r.clone()));
    let (table, left_out) = fitted(&COLUMNS, &sections(titled), width);
    text.push_str(&table);
    text.push('\n');
    text.push_str(&wrap(
        "ratio: to msync-all of the same size, below 1 is less. dev*: by the block device's own \
         counters, what neighbours do to it included.",
        width,
        2,
    ));
    text.push_str(&prose::left_out(&left_out, width));
    text.push_str("\nBy the size of the file:\n");
    text.push_str(&growth(&report.rows));
    text.push('\n');
    text.push_str(&prose::ending(
        &report.notes,
        &report.head.machine,
        &report.conclusion,
        width,
    ));
    text
}
