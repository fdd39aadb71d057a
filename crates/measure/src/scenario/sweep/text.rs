//! A report for people: for each way, a grid of chunk sizes and writes in flight, then the knees.

use super::knee::Finding;
use super::submission::Way;
use crate::result::legend::{self as words, Shown};
use crate::result::{Document, Row};
use logforce_terminal::layout::{Column, Section, fitted, widest, wrap};
use logforce_terminal::numbers::{bytes, number};

/// Shades of a cell, each with the smallest share of the best safe rate of its chunk size.
const SHADES: [(f64, char); 5] = [(0.8, '█'), (0.6, '▓'), (0.4, '▒'), (0.2, '░'), (0.0, '·')];

/// Number of columns between two grids side by side.
const GAP: usize = 3;

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(report: &Document, shown: Shown, width: usize) -> String {
    let title = "Journal writes, swept by chunk size and writes in flight";
    let mut text = words::beginning(title, report, shown, words::CUT, width);
    if !shown.all {
        return text;
    }
    text.push_str(&wrap(&legend(report), width, 2));
    text.push('\n');
    text.push_str(&side_by_side(&grids(report), width));
    text.push_str(&summary(report, width));
    text.push('\n');
    text.push_str(&words::ending(report, width));
    text
}

fn legend(report: &Document) -> String {
    let scale = match report.rows.iter().any(Row::is_safe) {
        true => "the highest rate of that chunk size that survives loss of power",
        false => "the highest rate of that chunk size (none survives loss of power)",
    };
    let shades: Vec<String> = SHADES
        .iter()
        .rev()
        .map(|(from, shade)| format!("{shade} from {:.0} %", from * 100.0))
        .collect();
    format!(
        "Cells: chunks a second (k: thousands, M: millions). Columns: N writes in flight, or in a group before \
         one barrier. Shade: share of {scale}: {}. *: the knee, the smallest N that is as good as the best, \
         which means at most a tenth below it, or the same. n/a: see the notes.",
        shades.join(", ")
    )
}

/// Returns the best safe rate of a chunk size; if no row is safe, the best rate.
fn full(rows: &[Row], chunk: u64) -> f64 {
    let any_safe = rows.iter().any(Row::is_safe);
    let of = |r: &&Row| r.chunk_bytes == chunk && (r.is_safe() || !any_safe);
    let rates = rows.iter().filter(of).filter_map(|r| r.chunks_per_s);
    rates.fold(0.0, f64::max)
}

fn shade(rate: f64, full: f64) -> char {
    let part = if full > 0.0 { rate / full } else { 1.0 };
    let found = SHADES.iter().find(|(from, _)| part >= *from);
    found.map_or('·', |(_, shade)| *shade)
}

/// Formats a rate with three digits in at most five characters.
fn compact(rate: f64) -> String {
    for (unit, sign) in [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")] {
        // A value that rounds to the next unit is written in that unit.
        if rate >= unit * 0.9995 || unit == 1.0 {
            let value = rate / unit;
            let decimals = match value {
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            return format!("{value:.decimals$}{sign}");
        }
    }
    String::new()
}

/// Returns the grid of one way: a title, the depths, and a line for each chunk size.
fn grid(method: &Row, report: &Document) -> Vec<String> {
    let Some(way) = Way::of(method) else {
        return Vec::new();
    };
    let title = match &method.error {
        Some(_) => format!("{way}   n/a here"),
        None => format!("{way}   survives {}", method.survives()),
    };
    let rows: Vec<&Row> = report.rows.iter().filter(|r| way.is_of(r)).collect();
    let mut lines = vec![title];
    if method.error.is_some() {
        return lines;
    }
    let mut depths: Vec<u64> = rows.iter().filter_map(|r| r.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let heads: String = depths.iter().map(|d| format!("{d:>7} ")).collect();
    lines.push(format!("{:>8}{heads}", "N:"));
    let mut missing: Vec<u64> = Vec::new();
    for of in rows.chunk_by(|a, b| a.chunk_bytes == b.chunk_bytes) {
        let Some(chunk) = of.first().map(|r| r.chunk_bytes) else {
            continue;
        };
        if of.iter().all(|r| r.error.is_some()) {
            missing.push(chunk);
            continue;
        }
        lines.extend(not_there(&mut missing));
        let full = full(&report.rows, chunk);
        let knee = report
            .knees
            .iter()
            .find(|k| way.is_of(k) && k.chunk_bytes == chunk)
            .and_then(|k| k.depth);
        let cells: String = of
            .iter()
            .map(|row| match row.chunks_per_s {
                Some(rate) => {
                    let mark = if knee.is_some() && knee == row.depth {
                        '*'
                    } else {
                        ' '
                    };
                    format!(" {}{:>5}{mark}", shade(rate, full), compact(rate))
                }
                None => format!("{:>7} ", "n/a"),
            })
            .collect();
        lines.push(format!("{:>8}{cells}", bytes(chunk)));
    }
    lines.extend(not_there(&mut missing));
    lines
}

/// Returns one line for adjacent chunk sizes without any figure.
fn not_there(chunks: &mut Vec<u64>) -> Option<String> {
    let (first, last) = (*chunks.first()?, *chunks.last()?);
    let sizes = match chunks.len() {
        1 => bytes(first),
        2 => format!("{} and {}", bytes(first), bytes(last)),
        _ => format!("{} to {}", bytes(first), bytes(last)),
    };
    chunks.clear();
    Some(format!("{:>8} {sizes}: n/a", ""))
}

fn grids(report: &Document) -> Vec<Vec<String>> {
    let methods = report.methods.iter();
    methods.map(|m| grid(m, report)).collect()
}

/// Places two grids side by side if they fit the width, else one below the other.
fn side_by_side(grids: &[Vec<String>], width: usize) -> String {
    let widths = grids.iter().flatten().map(|l| widest(l.trim_end()));
    let one = widths.max().unwrap_or(0);
    let per_row = if 2 * one + GAP <= width { 2 } else { 1 };
    let mut text = String::new();
    for row in grids.chunks(per_row) {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let parts: Vec<&str> = row
                .iter()
                .map(|g| g.get(at).map_or("", |l| l.trim_end()))
                .collect();
            let line = match parts.as_slice() {
                [left, right] => format!("{left:<one$}{:GAP$}{right}", ""),
                other => other.concat(),
            };
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// A way at the usual chunk size: one write at a time, and at the knee.
struct Line {
    way: Way,
    survives: String,
    one: Option<Row>,
    knee: Option<Row>,
    at: Option<Row>,
    most_mb: Option<f64>,
}

impl Line {
    /// Returns the knee, or a word if it is unknown.
    fn depth(&self) -> String {
        match &self.knee {
            Some(Row { depth: Some(n), .. }) => n.to_string(),
            Some(k) if k.finding == Finding::Noise => "noise".to_owned(),
            _ => "-".to_owned(),
        }
    }
}

const COLUMNS: [Column<Line>; 13] = [
    Column::text("method", 0, |l| l.way.to_string()),
    Column::number("one\nper s", 0, |l| rate(&l.one)),
    Column::number("one:\np50 µs", 3, |l| figure(&l.one, |r| r.p50_us, 1)),
    Column::number("one:\np99 µs", 5, |l| figure(&l.one, |r| r.p99_us, 1)),
    Column::number("knee\nat N", 0, Line::depth),
    Column::number("knee:\nper s", 0, |l| rate(&l.at)),
    Column::number("gain\n×", 1, |l| {
        number(l.knee.as_ref().and_then(|k| k.gain), 2)
    }),
    Column::number("knee:\np50 µs", 2, |l| figure(&l.at, |r| r.p50_us, 1)),
    Column::number("knee:\np99 µs", 4, |l| figure(&l.at, |r| r.p99_us, 1)),
    Column::number("dev*\nwrites", 7, |l| {
        figure(&l.at, |r| r.device_writes_per_chunk, 2)
    }),
    Column::number("dev*\nflush", 6, |l| {
        figure(&l.at, |r| r.device_flushes_per_chunk, 2)
    }),
    Column::number("any size\nMB/s", 1, |l| number(l.most_mb, 1)),
    Column::text("survives", 0, |l| l.survives.clone()),
];

fn figure(row: &Option<Row>, of: fn(&Row) -> Option<f64>, decimals: usize) -> String {
    number(row.as_ref().and_then(of), decimals)
}

fn rate(row: &Option<Row>) -> String {
    figure(row, |r| r.chunks_per_s, 1)
}

fn summary(report: &Document, width: usize) -> String {
    let chunk = report.usual_chunk_bytes;
    let lines = report
        .methods
        .iter()
        .filter(|m| m.error.is_none())
        .filter_map(|m| {
            let way = Way::of(m)?;
            let cell = |depth: u64| {
                let is_it =
                    |r: &&Row| way.is_of(r) && r.chunk_bytes == chunk && r.depth == Some(depth);
                report.rows.iter().find(is_it).cloned()
            };
            let mut knees = report.knees.iter();
            let knee = knees.find(|k| way.is_of(k) && k.chunk_bytes == chunk);
            let rates = report.rows.iter().filter(|r| way.is_of(r));
            Some(Line {
                way,
                survives: m.survives(),
                one: cell(1),
                at: knee.and_then(|k| cell(k.depth?)),
                knee: knee.cloned(),
                most_mb: rates.filter_map(|r| r.mb_per_s).max_by(f64::total_cmp),
            })
        });
    let section = Section {
        title: format!("chunks of {}:", bytes(chunk)),
        rows: lines.collect(),
    };
    let (table, left_out) = fitted(&COLUMNS, &[section], width);
    let legend = "one: with one write in flight. p50, p99: latency of a write, or of a whole group including its \
                  barrier. dev*: from the device's counters, per chunk, at the knee. any size: the highest rate of \
                  all chunk sizes. MB: millions of bytes.";
    table + &wrap(legend, width, 2) + &words::left_out(&left_out, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_five_characters() {
        for (rate, text) in [
            (0.0, "0.00"),
            (9.996, "10.0"),
            (84.2, "84.2"),
            (852.4, "852"),
            (999.6, "1.00k"),
            (1952.0, "1.95k"),
            (13_130.0, "13.1k"),
            (131_300.0, "131k"),
            (999_700.0, "1.00M"),
            (2_345_678.0, "2.35M"),
        ] {
            assert_eq!(compact(rate), text);
        }
    }

    #[test]
    fn shades_go_by_parts_of_the_best() {
        let shades: String = [0.0, 0.19, 0.2, 0.45, 0.6, 0.8, 1.0, 7.0]
            .iter()
            .map(|part| shade(part * 500.0, 500.0))
            .collect();
        assert_eq!(shades, "··░▒▓███");
    }
}
