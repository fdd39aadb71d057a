//! The results as text.

use super::published::{P5, Published, SOURCE, ratios};
use super::row::{systems, usual};
use super::{PAIRS, Policy, Sale};
use crate::result::legend::{self, Shown};
use crate::result::{Document, Row};
use logforce_terminal::layout::{Column, empty_table, finish, fitted, sections, wrap};
use logforce_terminal::numbers::{number, range, short};

const CUT: &str =
    "Interrupted: the table holds only what was measured until then, in whole rows.\n";

const COLUMNS: [Column<Row>; 14] = [
    Column::text("settings", 0, |r| r.settings.clone()),
    Column::number("policy", 4, |r| {
        r.policy.map_or_else(|| "-".to_owned(), |p| p.to_string())
    }),
    Column::number("clients", 0, |r| r.clients.to_string()),
    Column::number("pairs\ns", 0, |r| match r.error {
        Some(_) => "n/a".to_owned(),
        None => number(r.pairs_s, 4),
    }),
    Column::number("8 of 10\nrounds", 7, |r| match r.pairs_s {
        Some(_) => range(r.pairs_s_p10, r.pairs_s_p90, 3),
        None => "-".to_owned(),
    }),
    Column::number("commits\nper s", 0, |r| number(r.commits_per_s, 1)),
    Column::number("p50\nµs", 0, |r| number(r.p50_us, 1)),
    Column::number("p99\nµs", 1, |r| number(r.p99_us, 1)),
    Column::number("max\nµs", 8, |r| number(r.max_us, 0)),
    Column::number("forces", 6, |r| number(r.forces_per_commit, 2)),
    Column::number("dev*\nwrites", 3, |r| number(r.device_writes_per_commit, 2)),
    Column::number("dev*\nflush", 2, |r| number(r.device_flushes_per_commit, 2)),
    Column::number("rows", 7, |r| number(r.rows_checked.map(|n| n as f64), 0)),
    Column::text("survives", 0, Row::survives),
];

/// Notes on the method, for the reader.
pub(super) fn notes(rows: &[Row], pairs: u64, told: &[String]) -> Vec<String> {
    let mut notes = vec![format!(
        "Each row begins with an empty table. Every client has its own connection and inserts lines of a \
         sale, of about {} bytes, one per transaction. Then every acknowledged row is read back and must be \
         there exactly once. pairs: seconds for {} inserts by one client, the median of rounds in which \
         every row has its turn. All other figures are from one timed run after that, in which a noisy \
         neighbour may affect some rows and not others.",
        Sale::record_len(),
        pairs
    )];
    notes.extend(told.iter().cloned());
    let redone: u64 = rows.iter().filter_map(|r| r.redone).sum();
    if rows.iter().any(|r| r.redone.is_some()) {
        let found = match redone {
            0 => "they held the same transactions each time".to_owned(),
            n => format!("{n} transactions that one of them lacked were copied from the other"),
        };
        notes.push(format!(
            "Second log: each transaction is written to one log, then to the other. After each run both \
             were opened and compared: {found}."
        ));
    }
    notes.extend(worth(rows));
    notes.extend(missing(rows));
    notes
}

/// Returns the reasons for the guarantees: one sentence for each different reason.
fn worth(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|r| r.error.is_none()) {
        let Some(evidence) = &row.evidence else {
            continue;
        };
        let reason = format!("{}: {evidence}", row.survives());
        let name = format!("{} {}", row.system, row.settings);
        match reasons.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let sentence =
        |(reason, names): (String, Vec<String>)| format!("{reason} ({}).", names.join("; "));
    reasons.into_iter().map(sentence).collect()
}

/// Returns the reasons why rows have no numbers: one sentence for each different reason.
fn missing(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        let name = format!("{} {} × {}", row.system, row.settings, row.clients);
        match reasons.iter_mut().find(|(r, _)| r == error) {
            Some((_, names)) => names.push(name),
            None => reasons.push((error, vec![name])),
        }
    }
    let sentence =
        |(reason, names): (&str, Vec<String>)| format!("n/a: {}: {reason}.", names.join("; "));
    reasons.into_iter().map(sentence).collect()
}

/// Returns a table of the published seconds and ours, and a table of the ratios within each system.
fn beside_published(rows: &[Row], pairs: u64) -> String {
    let systems = systems(rows);
    let mut seconds = empty_table();
    let mut header = [
        "policy",
        "second\nlog",
        "published\nWindows s",
        "published\nLinux s",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(systems.iter().map(|s| format!("{s}\ns")));
    seconds.set_header(&header);
    for published in P5 {
        let mut cells = vec![
            published.policy.number().to_string(),
            if published.second_log { "on" } else { "off" }.to_owned(),
            short(published.windows_s, 1),
            short(published.linux_s, 1),
        ];
        let here = |s: &String| {
            number(
                seconds_of(rows, s, published.policy, published.second_log),
                4,
            )
        };
        cells.extend(systems.iter().map(here));
        seconds.add_row(cells);
    }
    let mut of_each = empty_table();
    let mut header = ["ratio", "published\nWindows", "published\nLinux"]
        .map(str::to_owned)
        .to_vec();
    header.extend(systems.iter().cloned());
    of_each.set_header(&header);
    let windows = ratios(|p, second| Published::of(p, second).map(|p| p.windows_s));
    let linux = ratios(|p, second| Published::of(p, second).map(|p| p.linux_s));
    let here: Vec<_> = systems
        .iter()
        .map(|s| ratios(|p, second| seconds_of(rows, s, p, second)))
        .collect();
    for (nth, (name, published)) in windows.iter().enumerate() {
        let mut cells = vec![
            (*name).to_owned(),
            number(*published, 2),
            number(linux[nth].1, 2),
        ];
        cells.extend(here.iter().map(|h| number(h[nth].1, 2)));
        of_each.add_row(cells);
    }
    let times = match pairs == PAIRS {
        true => format!("Seconds for {pairs} pairs"),
        false => format!(
            "Seconds for {pairs} pairs (published: for {}, so compare only the ratios)",
            PAIRS
        ),
    };
    format!(
        "{times}:\n{}\nRatios within each system:\n{}",
        finish(seconds, &[], 2),
        finish(of_each, &[0], 2)
    )
}

fn seconds_of(rows: &[Row], system: &str, policy: Policy, second_log: bool) -> Option<f64> {
    usual(rows, system, policy, second_log).map(|s| s.median)
}

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(document: &Document, pairs: u64, shown: Shown, width: usize) -> String {
    let title = "Inserts that are committed one by one";
    let mut text = legend::beginning(title, document, shown, CUT, width);
    if shown.all {
        let titled = document.rows.iter().map(|r| (heading(r), r.clone()));
        let (table, left_out) = fitted(&COLUMNS, &sections(titled), width);
        text.push_str(&table);
        text.push('\n');
        text.push_str(&wrap(
            "policy: 1 forced at each commit, 2 written at each commit, 0 neither. forces: per insert, as counted by the log \
             itself. dev*: per insert, from the block device's own counters, which include the work of other processes. rows: \
             acknowledged rows that were read back and found exactly once.",
            width,
            2,
        ));
        text.push_str(&legend::left_out(&left_out, width));
        text.push('\n');
    }
    if shown.published {
        text.push_str(&beside_published(&document.rows, pairs));
        text.push_str(&wrap(&format!("published: {SOURCE}."), width, 2));
        text.push('\n');
    }
    if shown.all {
        text.push_str(&legend::ending(document, width));
    }
    text
}

fn heading(row: &Row) -> String {
    let space = if row.system_version.is_empty() {
        ""
    } else {
        " "
    };
    format!("{}{space}{}:", row.system, row.system_version)
}
