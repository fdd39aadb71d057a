//! Tables for a terminal.

use super::published::Table;
use super::row::reference;
use crate::result::Row;
use crate::result::guarantee_label::mark;
use crate::run::SubjectKind;
use logforce_device::{FileState, Guarantee, Method, Platform};
use logforce_terminal::layout::{Column, empty_table, finish, fitted, sections};
use logforce_terminal::numbers::{number, short};

/// A row, and the time to which its ratio refers, in milliseconds per commit.
struct Judged {
    row: Row,
    safe: Option<f64>,
}

const COLUMNS: [Column<Judged>; 14] = [
    Column::text("method", 0, |j| label(&j.row)),
    Column::number("commits", 6, |j| {
        j.row
            .commits
            .map_or_else(|| "-".to_owned(), |n| n.to_string())
    }),
    Column::number("total\nms", 4, |j| number(j.row.total_ms, 3)),
    Column::number("ms per\nwrite", 0, |j| match j.row.error {
        Some(_) => "n/a".to_owned(),
        None => number(j.row.ms_per_commit, 4),
    }),
    Column::number("p50\nµs", 0, |j| number(j.row.p50_us, 1)),
    Column::number("p99\nµs", 1, |j| number(j.row.p99_us, 1)),
    Column::number("p99.9\nµs", 8, |j| number(j.row.p999_us, 1)),
    Column::number("max\nµs", 7, |j| number(j.row.max_us, 1)),
    Column::number("commits\nper s", 2, |j| number(j.row.commits_per_s, 1)),
    Column::number("dev*\nwrites", 5, |j| {
        number(j.row.device_writes_per_commit, 2)
    }),
    Column::number("dev*\nflush", 3, |j| {
        number(j.row.device_flushes_per_commit, 2)
    }),
    Column::number("dev*\nKiB", 9, |j| {
        number(j.row.device_bytes_per_commit.map(|b| b / 1024.0), 2)
    }),
    Column::text("survives", 0, |j| j.row.survives()),
    Column::number("ratio", 0, |j| {
        let ratio = j.row.ms_per_commit.zip(j.safe);
        number(ratio.map(|(ms, safe)| ms / safe), 2)
    }),
];

/// Returns the name of a row within its section.
pub fn label(row: &Row) -> String {
    match row.subject == SubjectKind::Raw {
        true => row.method.to_string(),
        false => {
            format!(
                "log ×{} {}",
                row.threads,
                logforce_terminal::numbers::bytes(row.bytes)
            )
        }
    }
}

/// Returns the main table, and the headings of the columns that were left out so that it fits into
/// `width` characters, as far as possible.
pub fn main_table(rows: &[Row], width: usize) -> (String, Vec<String>) {
    // One section per file state, in the order of the rows.
    let titled = rows.iter().map(|row| {
        let title = match row.file_state.is_empty() {
            false => format!("{} file:", row.file_state),
            true => format!("by the log, {}:", row.method),
        };
        let safe = reference(rows, row);
        let row = row.clone();
        (title, Judged { row, safe })
    });
    fitted(&COLUMNS, &sections(titled), width)
}

/// Returns the published rows of `platform` next to ours, as multiples of the base row of each column.
/// Methods that were measured here but not published follow. Returns `None` if nothing was published, or
/// if the base row was not measured here.
pub fn published_table(rows: &[Row], platform: Platform) -> Option<String> {
    let figures = Table::of(platform)?;
    let base = figures.base.method;
    let raw = |method: Method, state: FileState| {
        rows.iter().find(|r| {
            r.subject == SubjectKind::Raw
                && r.method == method
                && r.file_state == state
                && r.error.is_none()
        })
    };
    let is_there = |method, state| {
        rows.iter()
            .any(|r| r.subject == SubjectKind::Raw && r.method == method && r.file_state == state)
    };
    let states: Vec<FileState> = FileState::ALL
        .into_iter()
        .filter(|&s| raw(base, s).is_some_and(|r| r.ms_per_commit.is_some()))
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
    let here = |method: Method| {
        states.iter().map(move |&state| {
            let base = raw(base, state).and_then(|r| r.ms_per_commit);
            let ours = raw(method, state);
            let cell = ours
                .zip(base)
                .and_then(|(row, base)| Some((row.ms_per_commit? / base, row)));
            match cell {
                Some((ratio, row)) => format!("{} {}", short(ratio, 3), letter(row)),
                None if is_there(method, state) => "n/a".to_owned(),
                None => "-".to_owned(),
            }
        })
    };
    for published in figures.rows {
        let (system, ssd) = figures.ratios(published);
        let mut cells = vec![published.name.to_owned(), short(system, 3), short(ssd, 3)];
        cells.extend(here(published.method));
        table.add_row(cells);
    }
    let is_ours = |m: &&Method| {
        figures.rows.iter().all(|p| p.method != **m) && states.iter().any(|&s| is_there(**m, s))
    };
    for &method in platform.methods().iter().filter(is_ours) {
        let mut cells = vec![method.name().to_owned(), "-".to_owned(), "-".to_owned()];
        cells.extend(here(method));
        table.add_row(cells);
    }
    Some(finish(table, &[0], 2))
}

/// Meaning of the letters in [`published_table`].
pub const LETTERS: &str =
    "P survives power loss, O a crash of the operating system, C a crash of the process";

/// Returns the row's guarantee as one letter, followed by its mark.
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
    use crate::testing::row;
    use logforce_device::Verdict;
    use logforce_terminal::layout::{WIDTH, widest};

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

    /// Checks that the printed figures agree: ms per write × commits = total, 1000 / ms = commits/s.
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
        let table = published_table(&rows, Platform::Linux).unwrap();
        assert!(
            table.contains("1.000 P") && table.contains("C") && table.contains("3.500 P"),
            "{table}"
        );
        let without_fsync: Vec<Row> = rows
            .into_iter()
            .filter(|r| r.method != Method::Fsync)
            .collect();
        assert_eq!(published_table(&without_fsync, Platform::Linux), None);
    }

    /// Returns the name of the method in each line with figures.
    fn names(table: &str) -> Vec<String> {
        let lines = table
            .lines()
            .filter(|l| l.contains(" P") || l.contains(" C"));
        lines
            .filter_map(|l| Some(l.trim_start().split("  ").next()?.trim().to_owned()))
            .collect()
    }

    #[test]
    fn windows_is_held_beside_what_was_published_of_windows() {
        let mut rows: Vec<Row> = Method::WINDOWS
            .into_iter()
            .map(|m| row(m, FileState::Fallocated, 0.2))
            .collect();
        rows[1].ms_per_commit = Some(0.4);
        let table = published_table(&rows, Platform::Windows).unwrap();
        assert_eq!(
            names(&table),
            [
                "buffered",
                "buffered + FlushFileBuffers",
                "WRITE_THROUGH",
                "NO_BUFFERING",
                "NO_BUFFERING + WRITE_THROUGH",
                "flush-data"
            ],
            "{table}"
        );
        let line = |name: &str| {
            let of = |l: &&str| l.trim_start().starts_with(name);
            table.lines().find(of).unwrap().to_owned()
        };
        // 58,376 and 10,029 ms by 121,403 and 21,077.
        let through = line("WRITE_THROUGH");
        for part in ["0.481", "0.476", "0.500 P"] {
            assert!(through.contains(part), "{through}");
        }
        assert!(line("buffered + Flush").contains("1.000 P"), "{table}");
        let ours: Vec<String> = line("flush-data")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(ours, ["flush-data", "-", "-", "0.500", "P"]);
        assert_eq!(published_table(&rows, Platform::Linux), None);
    }

    #[test]
    fn nothing_was_published_of_macos() {
        let rows: Vec<Row> = Method::MACOS
            .into_iter()
            .map(|m| row(m, FileState::Zeroed, 0.2))
            .collect();
        assert_eq!(published_table(&rows, Platform::Macos), None);
        let (table, _) = main_table(&rows, WIDTH);
        for method in Method::MACOS {
            assert!(table.contains(method.name()), "{table}");
        }
    }
}
