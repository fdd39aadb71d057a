//! Results of the bulk comparison: medians, and the table.

use super::rounds::Line;
use super::turn::BulkRun;
use crate::rivals::described::{Described, with_version};
use crate::rivals::records::BULK_RECORD;
use comfy_table::{CellAlignment, Table, presets};
use logforce_measure::run::stats::spread;
use logforce_terminal::numbers::bytes;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A subject on a filesystem, and the results of its rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the subject.
    pub subject: String,
    /// Version.
    pub version: String,
    /// Description of the work.
    pub settings: String,
    /// Bytes of the appended records.
    pub bytes: u64,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<BulkRun, String>>,
}

impl Measured {
    /// Returns the results of a line, whose subject appended `size` bytes at most.
    pub fn new(line: Line<'_>, size: u64) -> Measured {
        Measured {
            filesystem: line.filesystem.name.clone(),
            subject: line.subject.name.to_owned(),
            version: line.subject.version.clone(),
            settings: line.subject.settings.clone(),
            bytes: size / BULK_RECORD as u64 * BULK_RECORD as u64,
            rounds: line.rounds,
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone)]
pub struct BulkRow {
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the subject.
    pub subject: String,
    /// Version.
    pub version: String,
    /// Number of successful rounds.
    pub rounds: usize,
    /// Bytes of the appended records.
    pub bytes: u64,
    /// MB (10^6 bytes) of records per second until all are durable, median of the rounds.
    pub append_mb_per_second: Option<f64>,
    /// Lowest and highest rate of the rounds.
    pub append_mb_per_second_range: Option<(f64, f64)>,
    /// Seconds to read everything back with the file absent from the system's cache.
    pub cold_seconds: Option<f64>,
    /// Seconds to read everything back a second time.
    pub warm_seconds: Option<f64>,
    /// Peak resident memory while appending, MiB.
    pub append_peak_mib: Option<f64>,
    /// Peak resident memory while reading, MiB.
    pub read_peak_mib: Option<f64>,
    /// Number of records missing when read back, sum of all rounds.
    pub missing: u64,
    /// Number of records that were never written, sum of all rounds.
    pub foreign: u64,
    /// Error of the first failed round.
    pub error: Option<String>,
}

impl BulkRow {
    /// Returns true if nothing failed and nothing was lost.
    pub fn is_well(&self) -> bool {
        self.error.is_none() && self.missing + self.foreign == 0
    }
}

/// Returns the rows, in the order of the lines.
pub fn rows(lines: &[Measured]) -> Vec<BulkRow> {
    lines.iter().map(row).collect()
}

fn row(line: &Measured) -> BulkRow {
    let seen: Vec<&BulkRun> = line.rounds.iter().flatten().collect();
    let of = |value: &dyn Fn(&BulkRun) -> Option<f64>| {
        let values: Vec<f64> = seen.iter().filter_map(|s| value(s)).collect();
        spread(&values).map(|s| s.median)
    };
    let rate = |s: &BulkRun| line.bytes as f64 / 1e6 / s.append.seconds;
    let rates = || seen.iter().map(|s| rate(s));
    let mib = |kib: Option<u64>| kib.map(|k| k as f64 / 1024.0);
    let both = |of: fn(&BulkRun) -> u64| seen.iter().map(|s| of(s)).sum();
    BulkRow {
        filesystem: line.filesystem.clone(),
        subject: line.subject.clone(),
        version: line.version.clone(),
        rounds: seen.len(),
        bytes: line.bytes,
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

/// Returns the table of a filesystem as text.
pub fn tables(filesystem: &Described, rows: &[BulkRow]) -> String {
    let mut rows = rows
        .iter()
        .filter(|r| r.filesystem == filesystem.name)
        .peekable();
    let Some(size) = rows.peek().map(|row| row.bytes) else {
        return String::new();
    };
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
    for row in rows {
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
        with_version(&row.subject, &row.version),
        shown(row.append_mb_per_second, 0),
        range,
        shown(row.cold_seconds, 2),
        shown(row.warm_seconds, 2),
        shown(row.append_peak_mib, 0),
        shown(row.read_peak_mib, 0),
        kept,
    ]
}

/// Returns the settings of each subject, and the errors.
pub fn below(lines: &[Measured], rows: &[BulkRow]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "\nBulk: appending ends when everything is durable; reading opens the log, reads every \
        record and closes it. Each runs in a separate process, and MiB is its peak resident memory. \
        Cold means without the file's pages in the system's cache; caches of the device or of \
        a host are not emptied.\n\n"
        .to_owned();
    // Writing to a string cannot fail.
    let first = lines.first().map(|line| &line.filesystem);
    for line in lines.iter().filter(|l| Some(&l.filesystem) == first) {
        let _ = writeln!(text, "- {}: {}", line.subject, line.settings);
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
