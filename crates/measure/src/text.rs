//! A report for people.

use crate::layout::wrap;
use crate::numbers::bytes;
use crate::published::Table;
use crate::report::{Report, fastest_safe};
use crate::table::{LETTERS, main_table, published_table};

/// The whole report, for a terminal of `width` characters.
pub fn render(report: &Report, width: usize) -> String {
    let mut text = String::new();
    let chunk = report.rows.first().map_or(0, |r| r.bytes);
    text.push_str(&wrap(
        &format!("Journal writes of {}; {}", bytes(chunk), report.machine),
        width,
        0,
    ));
    if report.interrupted {
        text.push_str("Interrupted: this is what was measured until then.\n");
    }
    text.push('\n');
    let (table, left_out) = main_table(&report.rows, width);
    text.push_str(&table);
    text.push('\n');
    let ratio = match fastest_safe(&report.rows, chunk) {
        Some(_) => {
            "ratio: to the fastest raw row for records of as many bytes that survives loss of power."
        }
        None => "ratio: none, as no row is safe.",
    };
    text.push_str(&wrap(ratio, width, 2));
    if !left_out.is_empty() {
        let line = format!(
            "left out on this narrow terminal (--json has them): {}.",
            left_out.join(", ")
        );
        text.push_str(&wrap(&line, width, 2));
    }
    let platform = report.machine.platform;
    if let Some((table, figures)) = published_table(&report.rows, platform).zip(Table::of(platform))
    {
        let title = format!(
            "As multiples of {}, beside {} ({}):",
            figures.base.name, figures.source, figures.machine
        );
        text.push('\n');
        text.push_str(&wrap(&title, width, 0));
        text.push('\n');
        text.push_str(&table);
        text.push_str(&wrap(&format!("here: {LETTERS}."), width, 2));
    }
    text.push('\n');
    // The caveat is told above everything.
    let is_told = |note: &&String| report.machine.caveat.as_ref() == Some(note);
    let notes = report.notes.iter().chain(&report.machine.notes);
    for note in notes.filter(|note| !is_told(note)) {
        text.push_str(&wrap(note, width, 2));
    }
    text.push('\n');
    text.push_str(&wrap(&report.conclusion, width, 0));
    text
}
