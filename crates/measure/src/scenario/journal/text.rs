//! A report for people.

use super::published::Table;
use super::row::fastest_safe;
use super::table::{LETTERS, main_table, published_table};
use crate::result::{Document, legend};
use logforce_terminal::layout::wrap;
use logforce_terminal::numbers::bytes;

/// Returns the report for a terminal of `width` characters.
pub(super) fn text(report: &Document, width: usize) -> String {
    let mut text = String::new();
    let chunk = report.rows.first().map_or(0, |r| r.bytes);
    text.push_str(&wrap(
        &format!("Journal writes of {}; {}", bytes(chunk), report.machine),
        width,
        0,
    ));
    if report.interrupted {
        text.push_str(legend::CUT);
    }
    text.push('\n');
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
    let published = report.machine.platform().and_then(|platform| {
        Some((
            published_table(&report.rows, platform)?,
            Table::of(platform)?,
        ))
    });
    if let Some((table, figures)) = published {
        let title = format!(
            "As multiples of {}, next to the figures of {} ({}):",
            figures.base.name, figures.source, figures.machine
        );
        text.push('\n');
        text.push_str(&wrap(&title, width, 0));
        text.push('\n');
        text.push_str(&table);
        text.push_str(&wrap(&format!("here: {LETTERS}."), width, 2));
    }
    text.push('\n');
    text.push_str(&legend::ending(report, width));
    text
}
