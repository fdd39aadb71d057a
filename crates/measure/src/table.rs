//! Tables for a terminal.

use crate::numbers::short;
use crate::published::P1;
use crate::report::{Row, reference};
use crate::subject::SubjectKind;
use comfy_table::presets;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use logforce_device::{FileState, Guarantee, Method, Verdict};

/// What a report is laid out for where nothing tells the width.
pub const WIDTH: usize = 120;

/// No borders but a thin line under the headings.
const STYLE: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('─'));

/// Begins the place of a title in a table under way.
const TITLE: char = '\u{a7}';

struct Column {
    heading: &'static str,
    /// Columns with the highest number are left out first on a narrow terminal; 0 never.
    expendable: u8,
    cell: fn(&Row, Option<f64>) -> String,
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| short(v, decimals))
}

const COLUMNS: [Column; 14] = [
    Column {
        heading: "method",
        expendable: 0,
        cell: |r, _| label(r),
    },
    Column {
        heading: "commits",
        expendable: 6,
        cell: |r, _| r.commits.map_or_else(|| "-".to_owned(), |n| n.to_string()),
    },
    Column {
        heading: "total\nms",
        expendable: 4,
        cell: |r, _| number(r.total_ms, 3),
    },
    Column {
        heading: "ms per\nwrite",
        expendable: 0,
        cell: |r, _| {
            if r.error.is_some() {
                "n/a".to_owned()
            } else {
                number(r.ms_per_commit, 4)
            }
        },
    },
    Column {
        heading: "p50\nµs",
        expendable: 0,
        cell: |r, _| number(r.p50_us, 1),
    },
    Column {
        heading: "p99\nµs",
        expendable: 1,
        cell: |r, _| number(r.p99_us, 1),
    },
    Column {
        heading: "p99.9\nµs",
        expendable: 8,
        cell: |r, _| number(r.p999_us, 1),
    },
    Column {
        heading: "max\nµs",
        expendable: 7,
        cell: |r, _| number(r.max_us, 1),
    },
    Column {
        heading: "commits\nper s",
        expendable: 2,
        cell: |r, _| number(r.commits_per_s, 1),
    },
    Column {
        heading: "dev*\nwrites",
        expendable: 5,
        cell: |r, _| number(r.device_writes_per_commit, 2),
    },
    Column {
        heading: "dev*\nflush",
        expendable: 3,
        cell: |r, _| number(r.device_flushes_per_commit, 2),
    },
    Column {
        heading: "dev*\nKiB",
        expendable: 9,
        cell: |r, _| number(r.device_bytes_per_commit.map(|b| b / 1024.0), 2),
    },
    Column {
        heading: "survives",
        expendable: 0,
        cell: |r, _| guarantee(r),
    },
    Column {
        heading: "ratio",
        expendable: 0,
        cell: |r, safe| number(r.ms_per_commit.zip(safe).map(|(ms, safe)| ms / safe), 2),
    },
];

/// What a row is called within its section.
pub fn label(row: &Row) -> String {
    match row.subject {
        SubjectKind::Raw => row.method.name().to_owned(),
        SubjectKind::Logforce => {
            format!("log ×{} {}", row.threads, crate::numbers::bytes(row.bytes))
        }
    }
}

/// The name of the row's guarantee, with a mark where it is not simply declared.
pub fn guarantee(row: &Row) -> String {
    let Some(guarantee) = row.guarantee else {
        return String::new();
    };
    format!("{guarantee}{}", mark(row.verdict))
}

fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Proven) => "+",
        Some(Verdict::Declared) | None => "",
        Some(Verdict::Unknown) => "?",
        Some(_) => "!",
    }
}

/// The main table, at most `width` characters wide where leaving columns out can do it. Returns
/// it with the headings of the columns that were left out.
pub fn main_table(rows: &[Row], width: usize) -> (String, Vec<String>) {
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    let mut left_out = Vec::new();
    loop {
        let fits = |gap| Some(render(rows, &columns, gap)).filter(|table| widest(table) <= width);
        if let Some(table) = fits(2).or_else(|| fits(1)) {
            return (table, left_out);
        }
        let next = columns.iter().enumerate().max_by_key(|(_, c)| c.expendable);
        match next.filter(|(_, c)| c.expendable > 0) {
            Some((index, column)) => {
                left_out.push(column.heading.replace('\n', " "));
                columns.remove(index);
            }
            None => return (render(rows, &columns, 1), left_out),
        }
    }
}

fn widest(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

/// A table in the style of the others; the columns `left_aligned` hold words.
pub fn plain(
    headings: &[String],
    rows: impl IntoIterator<Item = Vec<String>>,
    left_aligned: &[usize],
) -> String {
    let mut table = empty_table();
    table.set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    finish(table, left_aligned, 2)
}

fn empty_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn finish(mut table: Table, left_aligned: &[usize], gap: u16) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, gap));
        if !left_aligned.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Parts of the table: one per file state, in the order of the rows.
fn sections(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let mut sections: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let title = match row.file_state {
            Some(state) => format!("{state} file:"),
            None => format!("by the log, {}:", row.method),
        };
        match sections.iter_mut().find(|(t, _)| *t == title) {
            Some((_, members)) => members.push(row),
            None => sections.push((title, vec![row])),
        }
    }
    sections
}

fn render(rows: &[Row], columns: &[&Column], gap: u16) -> String {
    let mut table = empty_table();
    table.set_header(columns.iter().map(|c| c.heading));
    let sections = sections(rows);
    for (number, (_, members)) in sections.iter().enumerate() {
        // Stands for the title, which may be wider than the column.
        let mut heading = vec![format!("{TITLE}{number}")];
        heading.resize(columns.len(), String::new());
        table.add_row(heading);
        for row in members {
            table.add_row(columns.iter().enumerate().map(|(i, c)| {
                let cell = (c.cell)(row, reference(rows, row));
                if i == 0 { format!("  {cell}") } else { cell }
            }));
        }
    }
    let left: Vec<usize> = columns
        .iter()
        .enumerate()
        .filter(|(_, c)| matches!(c.heading, "method" | "survives"))
        .map(|(i, _)| i)
        .collect();
    let titled = |line: &str| {
        let number = line
            .strip_prefix(TITLE)
            .and_then(|n| n.parse::<usize>().ok());
        let title = number.and_then(|n| sections.get(n));
        title.map_or(line, |(title, _)| title).to_owned() + "\n"
    };
    finish(table, &left, gap).lines().map(titled).collect()
}

/// The published rows beside ours, each as a multiple of buffered + fsync in its column. `None`
/// without anything of ours to hold beside them.
pub fn published_table(rows: &[Row]) -> Option<String> {
    let raw = |method: Method, state: FileState| {
        rows.iter().find(|r| {
            r.subject == SubjectKind::Raw
                && r.method == method
                && r.file_state == Some(state)
                && r.error.is_none()
        })
    };
    let is_there = |method, state| {
        rows.iter().any(|r| {
            r.subject == SubjectKind::Raw && r.method == method && r.file_state == Some(state)
        })
    };
    let states: Vec<FileState> = FileState::ALL
        .into_iter()
        .filter(|&s| raw(Method::Fsync, s).is_some_and(|r| r.ms_per_commit.is_some()))
        .collect();
    if states.is_empty() {
        return None;
    }
    let mut table = empty_table();
    let mut header = vec![
        "method".to_owned(),
        "published\nsystem disk".to_owned(),
        "published\nSSD".to_owned(),
    ];
    header.extend(states.iter().map(|s| format!("here\n{s}")));
    table.set_header(header);
    for published in P1 {
        let (system, ssd) = published.ratios();
        let mut cells = vec![published.name.to_owned(), short(system, 3), short(ssd, 3)];
        for &state in &states {
            let fsync = raw(Method::Fsync, state).and_then(|r| r.ms_per_commit);
            let ours = raw(published.method, state);
            let cell = ours
                .zip(fsync)
                .and_then(|(row, fsync)| Some((row.ms_per_commit? / fsync, row)));
            cells.push(cell.map_or_else(
                || {
                    if is_there(published.method, state) {
                        "n/a"
                    } else {
                        "-"
                    }
                    .to_owned()
                },
                |(ratio, row)| format!("{} {}", short(ratio, 3), letter(row)),
            ));
        }
        table.add_row(cells);
    }
    Some(finish(table, &[0], 2))
}

/// What the letters in [`published_table`] mean.
pub const LETTERS: &str =
    "P survives loss of power, O a crash of the system, C a crash of the process";

/// The row's guarantee in one letter and its mark.
fn letter(row: &Row) -> String {
    let letter = match row.guarantee {
        Some(Guarantee::PowerLoss) => "P",
        Some(Guarantee::OsCrash) => "O",
        Some(Guarantee::ProcessCrash) => "C",
        _ => "-",
    };
    format!("{letter}{}", mark(row.verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conclusion::tests::row;

    fn rows() -> Vec<Row> {
        let mut rows: Vec<Row> = FileState::ALL
            .into_iter()
            .flat_map(|s| {
                Method::LINUX
                    .into_iter()
                    .enumerate()
                    .map(move |(i, m)| row(m, s, 0.0131 * (i as f64 + 1.0)))
            })
            .collect();
        rows[3].verdict = Some(Verdict::Implausible);
        rows
    }

    #[test]
    fn fits_120_columns_with_long_numbers() {
        let mut rows = rows();
        for r in &mut rows {
            r.commits = Some(65_536);
            r.total_ms = Some(65_536.0 * r.ms_per_commit.unwrap() * 10.0);
            r.max_us = Some(1_234_567.8);
            r.device_bytes_per_commit = Some(123_456.0);
            r.commits_per_s = Some(123_456.7);
        }
        let (table, left_out) = main_table(&rows, WIDTH);
        assert!(widest(&table) <= WIDTH, "{}\n{table}", widest(&table));
        assert!(left_out.is_empty(), "{left_out:?}");
        assert!(table.contains("power-loss!"));
    }

    #[test]
    fn a_narrow_terminal_loses_columns_not_digits() {
        let (table, left_out) = main_table(&rows(), 80);
        assert!(widest(&table) <= 80, "{table}");
        assert!(left_out.contains(&"p99.9 µs".to_owned()), "{left_out:?}");
        assert!(table.contains("survives") && table.contains("power-loss"));
        let (table, _) = main_table(&rows(), 10);
        assert!(table.lines().filter(|l| l.contains("direct+dsync")).count() == 4);
    }

    /// What is printed multiplies out: ms per write × commits = total, 1000 / ms = commits/s.
    #[test]
    fn is_consistent_with_itself() {
        let (table, _) = main_table(&rows(), WIDTH);
        let mut checked = 0;
        for line in table
            .lines()
            .filter(|l| l.contains("power-loss") || l.contains("-crash"))
        {
            let n: Vec<f64> = line
                .split_whitespace()
                .filter_map(|w| w.parse().ok())
                .collect();
            let (commits, total, per_write, per_second) = (n[0], n[1], n[2], n[7]);
            assert!((commits * per_write / total - 1.0).abs() < 0.005, "{line}");
            assert!(
                (1000.0 / per_write / per_second - 1.0).abs() < 0.005,
                "{line}"
            );
            checked += 1;
        }
        assert_eq!(checked, 28);
    }

    #[test]
    fn no_number_without_its_guarantee() {
        let mut rows = rows();
        rows[5] = Row {
            commits: None,
            guarantee: None,
            error: Some("no".to_owned()),
            ..rows[5].clone()
        };
        let table = published_table(&rows).unwrap();
        assert!(
            table.contains("1.000 P") && table.contains("C") && table.contains("3.500 P"),
            "{table}"
        );
        let without_fsync: Vec<Row> = rows
            .into_iter()
            .filter(|r| r.method != Method::Fsync)
            .collect();
        assert_eq!(published_table(&without_fsync), None);
    }
}
