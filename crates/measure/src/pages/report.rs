//! What was measured, for people and as data. Field names are kept compatible; see
//! `docs/bench-json.md`.

use super::published::{Published, SOURCE, remark};
use super::{Layout, Outcome, Way};
use crate::distribution::Distribution;
use crate::group::Series;
use crate::layout::{Column, fitted, sections, wrap};
use crate::numbers::{number, range};
use crate::report::as_name;
use crate::stats::Spread;
use crate::survives::survives;
use crate::{MeasureError, head, prose};
use logforce_device::{Assessment, Guarantee, Verdict};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-bench-pages";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
pub type Report = head::Report<Row>;

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Where the pages lie.
    pub layout: Layout,
    /// How they are made durable.
    pub way: Way,
    /// Pages of a commit, beside its header.
    pub pages: u64,
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
    /// 99 of 100 commits took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// The longest commit, microseconds.
    pub max_us: Option<f64>,
    /// How the latencies of all commits are distributed.
    pub latencies_us: Option<Distribution>,
    /// Time of a commit as a multiple of the barrier's, median of the rounds.
    pub ratio: Option<f64>,
    /// A tenth of the rounds lies below.
    pub ratio_p10: Option<f64>,
    /// A tenth of the rounds lies above.
    pub ratio_p90: Option<f64>,
    /// Writes, by commits, counted where they are handed to the system.
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
            layout: Layout::Contiguous,
            way: Way::Barrier,
            pages: 0,
            slices: 0,
            commits: 0,
            commits_per_s: None,
            commits_per_s_p10: None,
            commits_per_s_p90: None,
            p50_us: None,
            p99_us: None,
            max_us: None,
            latencies_us: None,
            ratio: None,
            ratio_p10: None,
            ratio_p90: None,
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

    /// From all slices of a case; `ratio` is to the barrier's.
    pub fn measured(
        series: &Series,
        ratio: Option<Spread>,
        assessment: Option<&Assessment>,
    ) -> Row {
        let rate = series.spread(|p| p.rate);
        let (latencies, counts, commits) = (&series.latencies, series.counts, series.commits());
        let by = |n: u64| (commits > 0).then(|| n as f64 / commits as f64);
        Row {
            slices: series.points.len() as u64,
            commits,
            commits_per_s: rate.map(|s| s.median),
            commits_per_s_p10: rate.map(|s| s.p10),
            commits_per_s_p90: rate.map(|s| s.p90),
            p50_us: Some(latencies.quantile_us(0.5)),
            p99_us: Some(latencies.quantile_us(0.99)),
            max_us: Some(latencies.max_us()),
            latencies_us: Distribution::of(latencies),
            ratio: ratio.map(|s| s.median),
            ratio_p10: ratio.map(|s| s.p10),
            ratio_p90: ratio.map(|s| s.p90),
            writes_per_commit: by(counts.writes),
            through_per_commit: by(counts.through),
            barriers_per_commit: by(counts.barriers),
            device_writes_per_commit: series.device.and_then(|d| by(d.writes)),
            device_flushes_per_commit: series.device.and_then(|d| d.flushes).and_then(by),
            guarantee: assessment.map(|a| a.guarantee),
            verdict: assessment.map(|a| a.verdict),
            evidence: assessment.map(|a| a.evidence.clone()),
            ..Row::empty()
        }
    }

    /// Of this case.
    pub fn of(self, layout: Layout, way: Way, pages: u64) -> Row {
        Row {
            layout,
            way,
            pages,
            ..self
        }
    }

    /// The ratio with its spread.
    pub fn spread(&self) -> Option<Spread> {
        Some(Spread {
            median: self.ratio?,
            p10: self.ratio_p10?,
            p90: self.ratio_p90?,
        })
    }

    /// What it survives, with a mark where that is not simply declared.
    fn survives(&self) -> String {
        survives(self.guarantee, self.verdict)
    }
}

/// The three ways side by side.
struct Line {
    layout: Layout,
    pages: u64,
    through: Option<Row>,
    gathered: Option<Row>,
    barrier: Option<Row>,
}

impl Line {
    /// Published of pages that lie side by side, as those of a journal do.
    fn published(&self) -> Option<Published> {
        Published::of(self.pages).filter(|_| self.layout == Layout::Contiguous)
    }
}

fn rate(row: &Option<Row>) -> String {
    match row {
        Some(row) if row.error.is_some() => "n/a".to_owned(),
        Some(row) => number(row.commits_per_s, 1),
        None => "-".to_owned(),
    }
}

fn ratio(row: &Option<Row>) -> String {
    number(row.as_ref().and_then(|r| r.ratio), 2)
}

const COLUMNS: [Column<Line>; 10] = [
    Column::text("pages", 0, |l| l.pages.to_string()),
    Column::number("through\ncommits/s", 0, |l| rate(&l.through)),
    Column::number("ratio", 0, |l| ratio(&l.through)),
    Column::number("gathered\ncommits/s", 0, |l| rate(&l.gathered)),
    Column::number("ratio", 0, |l| ratio(&l.gathered)),
    Column::number("barrier\ncommits/s", 0, |l| rate(&l.barrier)),
    Column::number("8 of 10\nslices", 4, |l| {
        let row = l.barrier.as_ref();
        let edges = row.map(|r| (r.commits_per_s_p10, r.commits_per_s_p90));
        let (p10, p90) = edges.unwrap_or_default();
        range(p10, p90, 0)
    }),
    Column::number("published\nthrough", 2, |l| {
        number(l.published().map(|p| p.through), 1)
    }),
    Column::number("published\nflush", 2, |l| {
        number(l.published().map(|p| p.flush), 1)
    }),
    Column::number("published\nratio", 1, |l| {
        number(l.published().map(|p| p.ratio()), 2)
    }),
];

const LEGEND: &str = "A commit: N pages of 4 KiB, forced, then a header of 4 KiB, forced. Through: \
    each page by a write that is durable by itself, one after the other. Gathered: one such write \
    for each run of contiguous pages, up to 8 in flight. Barrier: the same writes without that, \
    then one barrier. Ratio: time of a commit as a multiple of the barrier's, below 1 is faster; \
    in each round every case has a slice, the medians are shown.";

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let same = |l: &Line| l.layout == row.layout && l.pages == row.pages;
        let line = match lines.iter().position(same) {
            Some(at) => at,
            None => {
                lines.push(Line {
                    layout: row.layout,
                    pages: row.pages,
                    through: None,
                    gathered: None,
                    barrier: None,
                });
                lines.len() - 1
            }
        };
        let slot = match row.way {
            Way::WriteThrough => &mut lines[line].through,
            Way::Gathered => &mut lines[line].gathered,
            Way::Barrier => &mut lines[line].barrier,
        };
        *slot = Some(row.clone());
    }
    lines
}

/// What the reader should know of how it was measured.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![match outcome.direct {
        true => "Writes go past the system's cache, as those of a page file do; --cached measures \
                 through it, as was published."
            .to_owned(),
        false => "Writes go through the system's cache.".to_owned(),
    }];
    for way in Way::ALL {
        let mut of_way = outcome.rows.iter().filter(|r| r.way == way);
        if let Some(row) = of_way.find(|r| r.error.is_none() && r.guarantee.is_some()) {
            let evidence = row.evidence.as_deref().unwrap_or_default();
            notes.push(format!("{way} survives {}: {evidence}.", row.survives()));
        }
    }
    let mut missing: Vec<String> = Vec::new();
    for row in &outcome.rows {
        if let Some(error) = &row.error {
            let line = format!("{} n/a: {error}.", row.way);
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
    }
    notes.extend(missing);
    notes.push(remark());
    notes
}

/// All of it for a terminal of `width` characters.
pub fn text(report: &Report, width: usize) -> String {
    let mut text = prose::title("Commits of pages and a header", &report.head, width);
    let titled = lines(&report.rows)
        .into_iter()
        .map(|l| (format!("{}:", l.layout), l));
    let (table, left_out) = fitted(&COLUMNS, &sections(titled), width);
    text.push_str(&table);
    text.push('\n');
    text.push_str(&wrap(&format!("{LEGEND} Published: {SOURCE}."), width, 2));
    text.push_str(&prose::left_out(&left_out, width));
    text.push_str(&prose::ending(
        &report.notes,
        &report.head.machine,
        &report.conclusion,
        width,
    ));
    text
}
