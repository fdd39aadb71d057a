//! The tables, and the text below them.

use crate::rivals::described::{Described, with_version};
use crate::rivals::document::Document;
use crate::rivals::report::{RivalRow, yardstick};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// Returns the tables of a filesystem as text, one for each record size.
pub fn tables(filesystem: &Described, rows: &[RivalRow]) -> String {
    let rows: Vec<&RivalRow> = rows
        .iter()
        .filter(|r| r.filesystem == filesystem.name)
        .collect();
    let mut sizes: Vec<usize> = rows.iter().map(|r| r.record).collect();
    sizes.dedup();
    let of = |&size: &usize| one(&filesystem.title, size, &rows);
    sizes.iter().map(of).collect()
}

fn one(title: &str, record: usize, rows: &[&RivalRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "threads",
        "commits/s",
        "lowest-highest",
        "ratio",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "flushes/commit",
        "writes/commit",
        "read back",
    ]);
    for row in rows.iter().filter(|r| r.record == record) {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\nRecords of {record} bytes, {title}\n\n{table}\n")
}

fn cells(row: &RivalRow) -> Vec<String> {
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |v| format!("{v:.digits$}"))
    };
    let range = row
        .commits_per_second_range
        .map_or("-".to_owned(), |(low, high)| format!("{low:.0}-{high:.0}"));
    let ratio = row.ratio.map_or("-".to_owned(), |ratio| {
        format!("{ratio:.2} of {}", yardstick(row.threads))
    });
    vec![
        with_version(&row.rival, &row.version),
        row.threads.to_string(),
        shown(row.commits_per_second, 0),
        range,
        ratio,
        shown(row.p50_us, 0),
        shown(row.p99_us, 0),
        shown(row.p999_us, 0),
        shown(row.flushes_per_commit, 3),
        shown(row.writes_per_commit, 3),
        read_back(row),
    ]
}

/// Returns the cell that compares the acknowledged records with those read back.
fn read_back(row: &RivalRow) -> String {
    match (&row.error, row.kept) {
        (Some(_), _) => "FAILED".to_owned(),
        (None, None) => "-".to_owned(),
        (None, Some(kept)) if kept.missing + kept.foreign == 0 => "all".to_owned(),
        (None, Some(kept)) => format!("LOST {}, FOREIGN {}", kept.missing, kept.foreign),
    }
}

/// Returns the settings of each rival, the errors, and the rivals that did not run.
pub fn below(document: &Document, rows: &[RivalRow]) -> String {
    let mut text =
        "\nFlushes and writes are requests that the device completed; a request for a flush \
                            also counts as a write.\n\nSettings\n"
            .to_owned();
    // Writing to a string cannot fail.
    for setting in &document.settings {
        let _ = writeln!(text, "- {}: {}", setting.rival, setting.settings);
    }
    for absent in &document.not_run {
        let _ = writeln!(text, "- {}: not run: {}", absent.rival, absent.why);
    }
    for row in rows {
        if let Some(error) = &row.error {
            let _ = writeln!(
                text,
                "FAILED: {} with {} B and {} threads, filesystem {}: {error}",
                row.rival, row.record, row.threads, row.filesystem
            );
        }
    }
    text
}
