//! What bulk comes to: medians, and the table.

use super::rounds::Line;
use super::subjects::Subject;
use super::turn::BulkRun;
use crate::rivals::filesystem::Filesystem;
use crate::rivals::records::BULK_RECORD;
use comfy_table::{CellAlignment, Table, presets};
use logforce_measure::run::stats::spread;
use logforce_terminal::numbers::bytes;
use serde::Serialize;
use std::fmt::Write;

/// A line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct BulkRow {
    /// Name of the filesystem on the command line.
    pub filesystem: String,
    /// Who.
    pub subject: &'static str,
    /// Its version.
    pub version: String,
    /// Rounds that have a result.
    pub rounds: usize,
    /// Bytes of records that were appended.
    pub bytes: u64,
    /// MB (10^6 bytes) of records per second until all were durable, the median of the rounds.
    pub append_mb_per_second: Option<f64>,
    /// The lowest and the highest of the rounds.
    pub append_mb_per_second_range: Option<(f64, f64)>,
    /// Seconds until all were read back with nothing of them in the system's cache.
    pub cold_seconds: Option<f64>,
    /// Seconds until all were read back again.
    pub warm_seconds: Option<f64>,
    /// MiB of memory that were resident at most while appending.
    pub append_peak_mib: Option<f64>,
    /// MiB of memory that were resident at most while reading.
    pub read_peak_mib: Option<f64>,
    /// Records that were not there when they were read back, in all rounds.
    pub missing: u64,
    /// Records that nobody wrote, in all rounds.
    pub foreign: u64,
    /// What went wrong, of the first round where something did.
    pub error: Option<String>,
}

impl BulkRow {
    /// Nothing failed, and nothing was lost.
    pub fn is_well(&self) -> bool {
        self.error.is_none() && self.missing + self.foreign == 0
    }
}

/// The rows, in the order of the lines.
pub fn rows(lines: &[Line<'_>], size: u64) -> Vec<BulkRow> {
    lines.iter().map(|line| row(line, size)).collect()
}

fn row(line: &Line<'_>, size: u64) -> BulkRow {
    let seen: Vec<&BulkRun> = line.rounds.iter().flatten().collect();
    let of = |value: &dyn Fn(&BulkRun) -> Option<f64>| {
        let values: Vec<f64> = seen.iter().filter_map(|s| value(s)).collect();
        spread(&values).map(|s| s.median)
    };
    let bytes = size / BULK_RECORD as u64 * BULK_RECORD as u64;
    let rate = |s: &BulkRun| bytes as f64 / 1e6 / s.append.seconds;
    let rates = || seen.iter().map(|s| rate(s));
    let mib = |kib: Option<u64>| kib.map(|k| k as f64 / 1024.0);
    let both = |of: fn(&BulkRun) -> u64| seen.iter().map(|s| of(s)).sum();
    BulkRow {
        filesystem: line.filesystem.name.clone(),
        subject: line.subject.name,
        version: line.subject.version.clone(),
        rounds: seen.len(),
        bytes,
        append_mb_per_second: of(&|s| Some(rate(s))),
        append_mb_per_second_range: rates().reduce(f64::min).zip(rates().reduce(f64::max)),
        cold_seconds: of(&|s| Some(s.cold.seconds)),
        warm_seconds: of(&|s| Some(s.warm.seconds)),
        append_peak_mib: of(&|s| mib(s.append.peak_kib)),
        read_peak_mib: of(&|s| mib(s.cold.peak_kib.max(s.warm.peak_kib))),
        missing: both(|s| s.cold.missing + s.warm.missing),
        foreign: both(|s| s.cold.foreign + s.warm.foreign),
        error: line.rounds.iter().find_map(|r| r.as_ref().err().cloned()),
    }
}

/// The table of a filesystem as text.
pub fn tables(filesystem: &Filesystem, rows: &[BulkRow], size: u64) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "append MB/s",
        "lowest-highest",
        "read cold s",
        "read warm s",
        "MiB appending",
        "MiB reading",
        "read back",
    ]);
    for row in rows.iter().filter(|r| r.filesystem == filesystem.name) {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "\n{} in records of {}, {}\n\n{table}\n",
        bytes(size),
        bytes(BULK_RECORD as u64),
        filesystem.title
    )
}

fn cells(row: &BulkRow) -> Vec<String> {
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |v| format!("{v:.digits$}"))
    };
    let range = row
        .append_mb_per_second_range
        .map_or("-".to_owned(), |(low, high)| format!("{low:.0}-{high:.0}"));
    let kept = match (&row.error, row.missing + row.foreign) {
        (Some(_), _) => "FAILED".to_owned(),
        (None, 0) if row.rounds == 0 => "-".to_owned(),
        (None, 0) => "all".to_owned(),
        (None, _) => format!("LOST {}, FOREIGN {}", row.missing, row.foreign),
    };
    vec![
        format!("{} {}", row.subject, row.version).trim().to_owned(),
        shown(row.append_mb_per_second, 0),
        range,
        shown(row.cold_seconds, 2),
        shown(row.warm_seconds, 2),
        shown(row.append_peak_mib, 0),
        shown(row.read_peak_mib, 0),
        kept,
    ]
}

/// How each appends, and what failed.
pub fn below(subjects: &[Subject], rows: &[BulkRow]) -> String {
    let mut text = "\nBulk: until all is durable; reading is opening, every record, and closing, \
                    each in a process of its own whose peak of resident memory is told. Cold is \
                    without the file's pages in the system's cache: what the device or a host \
                    caches is not emptied.\n\n"
        .to_owned();
    // Writing to a string cannot fail.
    for subject in subjects {
        let _ = writeln!(text, "- {}: {}", subject.name, subject.settings);
    }
    for row in rows {
        if let Some(error) = &row.error {
            let _ = writeln!(
                text,
                "FAILED: bulk of {}, filesystem {}: {error}",
                row.subject, row.filesystem
            );
        }
    }
    text
}
