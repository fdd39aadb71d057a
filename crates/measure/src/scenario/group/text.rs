//! The results as text.

use crate::result::legend::{self, INTERRUPTED, Shown};
use crate::result::{Document, Row};
use logforce_device::Granted;
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{bytes, count, number, range, rounded};

impl AsRef<Row> for Row {
    fn as_ref(&self) -> &Row {
        self
    }
}

/// Returns the columns that every row of commits to a log has.
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
        Column::number("commits", 9, |r: &R| {
            r.as_ref().commits.unwrap_or(0).to_string()
        }),
    ]
}

const NOTES: &str = "Every row has one slice per round. commits/s: the median over all slices. \
    Latencies are over all commits. Records a write: commits divided by the writes that carried \
    them, counted at the log's calls to the system. Forces: durable writes and barriers.";
/// Note on the columns with a star.
pub const DEVICE: &str =
    "dev*: from the block device's own counters, which include the work of other processes.";

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(document: &Document, shown: Shown, width: usize) -> String {
    let worth = document.guarantee.zip(document.verdict);
    let worth = worth.map(|(g, v)| format!(" ({}, {v})", Granted::new(g, v)));
    let what = format!(
        "Commits to the log, by {}{}",
        document.method,
        worth.unwrap_or_default()
    );
    let mut text = legend::beginning(&what, document, shown, INTERRUPTED, width);
    if !shown.all {
        return text;
    }
    let rows = document.rows.iter().filter(|r| r.error.is_none());
    let mut shown = vec![Column::text("", 0, |r: &Row| count(r.threads, "thread"))];
    shown.extend(columns());
    let (table, left_out) = fitted(
        &shown,
        &sections(rows.map(|r| (title(r), r.clone()))),
        width,
    );
    let measured = document.rows.iter().any(|r| r.error.is_none());
    if measured {
        text.push_str(&table);
        text.push('\n');
    }
    for row in &document.rows {
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
    text.push_str(&legend::left_out(&left_out, width));
    text.push_str(&wrap(NOTES, width, 2));
    if document
        .rows
        .iter()
        .any(|r| r.device_writes_per_commit.is_some())
    {
        text.push_str(&wrap(DEVICE, width, 2));
    }
    text.push_str(&legend::ending(document, width));
    text
}

fn title(row: &Row) -> String {
    format!("records of {}:", bytes(row.record_bytes))
}

/// Returns, for each record size, the rates by one thread and by the best number of threads.
pub(super) fn conclude(rows: &[Row]) -> String {
    let mut sizes: Vec<u64> = rows.iter().map(|r| r.record_bytes).collect();
    sizes.dedup();
    let rate = |row: &Row| row.commits_per_s.unwrap_or_default();
    let sentence = |size: u64| {
        let of = || {
            rows.iter()
                .filter(move |r| r.record_bytes == size && r.error.is_none())
        };
        let fewest = of().min_by_key(|r| r.threads)?;
        let most = of().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let told = |row: &Row| {
            format!(
                "{} commits a second by {}, {} µs at p50",
                rounded(rate(row)),
                count(row.threads, "thread"),
                number(row.p50_us, 1)
            )
        };
        let more = match most.threads == fewest.threads {
            true => String::new(),
            false => format!(
                "; at most {}, with {} forces a commit",
                told(most),
                number(most.forces_per_commit, 3)
            ),
        };
        Some(format!(
            "Records of {}: {}{more}.",
            bytes(size),
            told(fewest)
        ))
    };
    let sentences: Vec<String> = sizes.into_iter().filter_map(sentence).collect();
    sentences.join(" ")
}
