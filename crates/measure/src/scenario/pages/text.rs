//! The results as text.

use super::published::{Published, SOURCE, remark};
use super::{Layout, ScenarioOutcome, Way};
use crate::result::legend::{self, Shown};
use crate::result::{Document, Name, Row};
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{number, range};

/// A line of the table: the three ways side by side.
struct Line {
    layout: Name,
    pages: u64,
    through: Option<Row>,
    gathered: Option<Row>,
    barrier: Option<Row>,
}

impl Line {
    /// Returns the published row, which is for contiguous pages, as in a journal.
    fn published(&self) -> Option<Published> {
        Published::of(self.pages).filter(|_| self.layout == Layout::Contiguous)
    }
}

fn rate(row: &Option<Row>) -> String {
    match row {
        Some(row) if row.error.is_some() => "n/a".to_owned(),
        Some(row) => number(row.commits_per_s, 1),
        None => "-".to_owned(),
    }
}

fn ratio(row: &Option<Row>) -> String {
    number(row.as_ref().and_then(|r| r.ratio), 2)
}

/// Number of columns before those of the published figures.
const OURS: usize = 7;

const COLUMNS: [Column<Line>; 10] = [
    Column::text("pages", 0, |l| l.pages.to_string()),
    Column::number("through\ncommits/s", 0, |l| rate(&l.through)),
    Column::number("ratio", 0, |l| ratio(&l.through)),
    Column::number("gathered\ncommits/s", 0, |l| rate(&l.gathered)),
    Column::number("ratio", 0, |l| ratio(&l.gathered)),
    Column::number("barrier\ncommits/s", 0, |l| rate(&l.barrier)),
    Column::number("8 of 10\nslices", 4, |l| {
        let row = l.barrier.as_ref();
        let edges = row.map(|r| (r.commits_per_s_p10, r.commits_per_s_p90));
        let (p10, p90) = edges.unwrap_or_default();
        range(p10, p90, 0)
    }),
    Column::number("published\nthrough", 2, |l| {
        number(l.published().map(|p| p.through), 1)
    }),
    Column::number("published\nflush", 2, |l| {
        number(l.published().map(|p| p.flush), 1)
    }),
    Column::number("published\nratio", 1, |l| {
        number(l.published().map(|p| p.ratio()), 2)
    }),
];

const LEGEND: &str = "A commit writes N pages of 4 KiB and forces them, then a header of 4 KiB and \
    forces it. Through: one write per page, durable by itself, one after the other. Gathered: one \
    such write per run of contiguous pages, up to 8 in flight. Barrier: the same runs in plain \
    writes, then one barrier. Ratio: time of a commit divided by that of the barrier; below 1 is \
    faster. Every case has one slice per round; the medians are shown.";

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let same = |l: &Line| l.layout == row.layout && l.pages == row.pages;
        let line = match lines.iter().position(same) {
            Some(at) => at,
            None => {
                lines.push(Line {
                    layout: row.layout.clone(),
                    pages: row.pages,
                    through: None,
                    gathered: None,
                    barrier: None,
                });
                lines.len() - 1
            }
        };
        let slot = match row.way.known() {
            Some(Way::WriteThrough) => &mut lines[line].through,
            Some(Way::Gathered) => &mut lines[line].gathered,
            Some(Way::Barrier) => &mut lines[line].barrier,
            None => continue,
        };
        *slot = Some(row.clone());
    }
    lines
}

/// Notes on the method, for the reader.
pub(super) fn notes(outcome: &ScenarioOutcome<bool>) -> Vec<String> {
    let mut notes = vec![match outcome.more {
        true => "Writes use direct I/O, like those of a page file. --cached measures \
                 writes through the system's cache, as in the published figures."
            .to_owned(),
        false => "Writes go through the system's cache.".to_owned(),
    }];
    for way in Way::ALL {
        let mut of_way = outcome.rows.iter().filter(|r| r.way == way);
        if let Some(row) = of_way.find(|r| r.error.is_none() && r.guarantee.is_some()) {
            let evidence = row.evidence.as_deref().unwrap_or_default();
            notes.push(format!("{way} survives {}: {evidence}.", row.survives()));
        }
    }
    let mut missing: Vec<String> = Vec::new();
    for row in &outcome.rows {
        if let Some(error) = &row.error {
            let line = format!("{} n/a: {error}.", row.way);
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
    }
    notes.extend(missing);
    notes
}

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(document: &Document, shown: Shown, width: usize) -> String {
    let title = "Commits of pages and a header";
    let mut text = legend::beginning(title, document, shown, legend::INTERRUPTED, width);
    if shown.is_brief() {
        return text;
    }
    let titled = lines(&document.rows)
        .into_iter()
        .map(|l| (format!("{}:", l.layout), l));
    let columns = match shown.published {
        true => &COLUMNS[..],
        false => &COLUMNS[..OURS],
    };
    let (table, left_out) = fitted(columns, &sections(titled), width);
    text.push_str(&table);
    text.push('\n');
    text.push_str(&wrap(LEGEND, width, 2));
    if shown.published {
        text.push_str(&wrap(
            &format!("Published: {SOURCE}. {}", remark()),
            width,
            2,
        ));
    }
    text.push_str(&legend::left_out(&left_out, width));
    if shown.all {
        text.push_str(&legend::ending(document, width));
    }
    text
}
