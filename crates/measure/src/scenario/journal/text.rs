//! A report for people.

use super::published::Table;
use super::row::fastest_safe;
use super::table::{LETTERS, main_table, published_table};
use crate::result::Document;
use crate::result::legend::{self, Shown};
use logforce_terminal::layout::wrap;
use logforce_terminal::numbers::bytes;

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(report: &Document, shown: Shown, width: usize) -> String {
    let chunk = report.rows.first().map_or(0, |r| r.bytes);
    let title = format!("Journal writes of {}", bytes(chunk));
    let mut text = legend::beginning(&title, report, shown, legend::CUT, width);
    if shown.all {
        let (table, left_out) = main_table(&report.rows, width);
        text.push_str(&table);
        text.push('\n');
        let ratio = match fastest_safe(&report.rows, chunk) {
            Some(_) => {
                "ratio: time divided by that of the fastest raw row of the same record size that survives power loss."
            }
            None => "ratio: none, because no raw row survives power loss.",
        };
        text.push_str(&wrap(ratio, width, 2));
        text.push_str(&legend::left_out(&left_out, width));
        text.push('\n');
    }
    if shown.published {
        text.push_str(&published(report, width));
        text.push('\n');
    }
    if shown.all {
        text.push_str(&legend::ending(report, width));
    }
    text
}

/// Returns the published figures beside ours.
fn published(report: &Document, width: usize) -> String {
    let Some(figures) = report.machine.platform().and_then(Table::of) else {
        return "Nothing was published for this system.\n".to_owned();
    };
    let table = report
        .machine
        .platform()
        .and_then(|p| published_table(&report.rows, p));
    let Some(table) = table else {
        let base = figures.base.method;
        return wrap(
            &format!("The published figures are multiples of {base}, which was not measured here."),
            width,
            0,
        );
    };
    let title = format!(
        "As multiples of {}, next to the figures of {} ({}):",
        figures.base.name, figures.source, figures.machine
    );
    let letters = wrap(&format!("here: {LETTERS}."), width, 2);
    format!("{}\n{table}{letters}", wrap(&title, width, 0))
}
