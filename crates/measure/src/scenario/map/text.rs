//! The results as text.

use super::{MapMethod, P4};
use crate::result::legend::{self, Shown};
use crate::result::{Document, Row};
use logforce_terminal::layout::{Column, empty_table, finish, fitted, sections, wrap};
use logforce_terminal::numbers::{bytes, count, number, range};

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
    Column::number("commits", 7, |r| r.commits.unwrap_or(0).to_string()),
    Column::text("survives", 0, Row::survives),
];

/// Notes on the method, for the reader.
pub(super) fn notes(rows: &[Row], pages: u64) -> Vec<String> {
    let mut notes = vec![format!(
        "A commit overwrites {} of 4 KiB anywhere in the file and makes them durable. Then it overwrites \
         one more page, which makes the change take effect, and makes that durable too (our page files \
         have a header for that).",
        count(pages, "page")
    )];
    notes.push(
        "msync-all, msync-ranges: pages are changed in a mapping of the file, then the whole mapping, \
         or each run of changed pages, is synced. gathered+barrier: sorted runs of pages are written one \
         after the other through the system's cache, then forced by one barrier. in-flight: up to 8 such \
         writes at once, then one barrier; or each write durable by itself (write-through), as in the \
         published method. copy-on-write, logged: our page files, with pages of 4 KiB and checksums."
            .to_owned(),
    );
    notes.push(
        "System CPU: processor time of the whole process in the kernel, background threads included, \
         as a mean over all commits. Logged files: the checkpoint at the end of each slice, which writes \
         the pages to the data file, counts in the time and in the processor time of the commits, but \
         not in p50 and p99."
            .to_owned(),
    );
    for row in rows {
        if let Some(error) = &row.error {
            let size = bytes(row.file_bytes);
            notes.push(format!("{} n/a at {size}: {error}.", row.method));
        }
    }
    let with_evidence = rows.iter().find(|r| r.evidence.is_some());
    if let Some(row) = with_evidence {
        let evidence = row.evidence.as_deref().unwrap_or_default();
        notes.push(format!(
            "{} survives {}: {evidence}.",
            row.method,
            row.survives()
        ));
    }
    notes
}

/// Returns the table of the growth of each method's time and processor time with the size of the file.
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

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(document: &Document, shown: Shown, width: usize) -> String {
    let title = "Small commits to large files";
    let mut text = legend::beginning(title, document, shown, legend::INTERRUPTED, width);
    if shown.all {
        let titled = document.rows.iter();
        let titled = titled.map(|r| (format!("file of {}:", bytes(r.file_bytes)), r.clone()));
        let (table, left_out) = fitted(&COLUMNS, &sections(titled), width);
        text.push_str(&table);
        text.push('\n');
        text.push_str(&wrap(
            "ratio: divided by msync-all of the same file size; below 1 is less. dev*: per commit, from the \
             block device's own counters, which include the work of other processes.",
            width,
            2,
        ));
        text.push_str(&legend::left_out(&left_out, width));
        text.push_str("\nBy the size of the file:\n");
        text.push_str(&growth(&document.rows));
        text.push('\n');
        text.push_str(&legend::ending(document, width));
    }
    if shown.published {
        text.push_str(&wrap(&P4.sentence(), width, 0));
    }
    text
}
