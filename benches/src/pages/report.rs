//! Medians of the rounds, and the tables.

use super::case::{Case, PAGE};
use super::slice::PageSlice;
use comfy_table::{CellAlignment, Table, presets};
use logforce_measure::run::stats::spread;
use serde::Serialize;

/// A store with a case, and the results of its rounds.
pub struct Line {
    pub store: &'static str,
    pub case: Case,
    pub rounds: Vec<PageSlice>,
}

/// A line of a table: medians of the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct PageRow {
    pub store: &'static str,
    #[serde(flatten)]
    pub case: Case,
    pub rounds: usize,
    pub commits_per_second: f64,
    /// Median of the rounds' ratios to the plain writes.
    pub ratio: Option<f64>,
    pub p50_us: f64,
    pub p999_us: f64,
    /// Longest commit of all rounds.
    pub max_us: f64,
    pub cpu_us_per_commit: f64,
    /// Bytes written to the device, divided by the bytes of changed pages.
    pub written_per_byte: Option<f64>,
    pub flushes_per_commit: Option<f64>,
}

/// Returns the rows, in the order of the lines.
pub fn rows(lines: &[Line], beside: &str) -> Vec<PageRow> {
    let compared = |case: Case| {
        let mut all = lines.iter();
        all.find(move |l| l.store == beside && l.case == case)
    };
    lines
        .iter()
        .filter_map(|line| row(line, compared(line.case)))
        .collect()
}

fn row(line: &Line, beside: Option<&Line>) -> Option<PageRow> {
    let of = |value: &dyn Fn(&PageSlice) -> Option<f64>| {
        median(line.rounds.iter().filter_map(value).collect())
    };
    let ratios = beside.map(|beside| {
        let pairs = line.rounds.iter().zip(&beside.rounds);
        pairs.map(|(a, b)| a.rate() / b.rate()).collect()
    });
    let per_commit = |value: f64, seen: &PageSlice| value / seen.commits as f64;
    Some(PageRow {
        store: line.store,
        case: line.case,
        rounds: line.rounds.len(),
        commits_per_second: of(&|s| Some(s.rate()))?,
        ratio: ratios.and_then(median),
        p50_us: of(&|s| Some(s.p50_us))?,
        p999_us: of(&|s| Some(s.p999_us))?,
        max_us: line.rounds.iter().map(|s| s.max_us).reduce(f64::max)?,
        cpu_us_per_commit: of(&|s| Some(per_commit(s.cpu.as_secs_f64() * 1e6, s)))?,
        written_per_byte: of(&|s| {
            let pages = (line.case.pages * PAGE) as f64;
            Some(per_commit(s.device?.bytes as f64, s) / pages)
        }),
        flushes_per_commit: of(&|s| Some(per_commit(s.device?.flushes? as f64, s))),
    })
}

fn median(values: Vec<f64>) -> Option<f64> {
    spread(&values).map(|s| s.median)
}

/// Returns one table for each case.
pub fn tables(rows: &[PageRow]) -> String {
    let mut cases: Vec<Case> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    cases.iter().map(|case| table(*case, rows)).collect()
}

fn table(case: Case, rows: &[PageRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "commits/s",
        "ratio",
        "p50 ms",
        "p99.9 ms",
        "max ms",
        "CPU µs/commit",
        "written/changed",
        "flushes/commit",
    ]);
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |v| format!("{v:.digits$}"))
    };
    for row in rows.iter().filter(|r| r.case == case) {
        table.add_row([
            row.store.to_owned(),
            format!("{:.0}", row.commits_per_second),
            shown(row.ratio, 2),
            format!("{:.2}", row.p50_us / 1e3),
            format!("{:.1}", row.p999_us / 1e3),
            format!("{:.0}", row.max_us / 1e3),
            format!("{:.0}", row.cpu_us_per_commit),
            shown(row.written_per_byte, 2),
            shown(row.flushes_per_commit, 2),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{}\n\n{table}\n", case.name())
}

#[cfg(test)]
mod tests {
    use super::super::case::all;
    use super::*;
    use std::time::Duration;

    fn line(store: &'static str, commits: [u64; 3]) -> Line {
        let seen = |commits| PageSlice {
            commits,
            took: Duration::from_secs(2),
            p50_us: 10.0,
            p999_us: 20.0,
            max_us: 30.0,
            cpu: Duration::from_millis(commits),
            device: None,
        };
        Line {
            store,
            case: all()[0],
            rounds: commits.map(seen).to_vec(),
        }
    }

    #[test]
    fn ratios_are_of_rounds() {
        let lines = [line("plain", [100, 200, 400]), line("x", [300, 400, 400])];
        let rows = rows(&lines, "plain");
        assert_eq!(rows[0].ratio, Some(1.0));
        assert_eq!(
            (rows[1].ratio, rows[1].commits_per_second),
            (Some(2.0), 200.0)
        );
        assert!((rows[1].cpu_us_per_commit - 1000.0).abs() < 1e-6);
        let text = tables(&rows);
        assert!(
            text.contains("sustained-uniform-5") && text.contains("2.00"),
            "{text}"
        );
    }
}
