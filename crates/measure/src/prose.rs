//! The sentences around the table of a report for people.

use crate::head::Head;
use crate::layout::wrap;
use crate::machine::Machine;

/// Says that the rounds that follow are not all that were asked for.
pub const INTERRUPTED: &str =
    "Interrupted: this is what was measured until then, in whole rounds.\n";

/// What was measured and on what, above the table.
pub fn title(what: &str, head: &Head, width: usize) -> String {
    let mut text = wrap(&format!("{what}; {}", head.machine), width, 0);
    if head.interrupted {
        text.push_str(INTERRUPTED);
    }
    text.push('\n');
    text
}

/// Names the columns that the width left no room for; nothing if there are none.
pub fn left_out(columns: &[String], width: usize) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let line = format!(
        "left out on this narrow terminal (--json has them): {}.",
        columns.join(", ")
    );
    wrap(&line, width, 2)
}

/// The notes and the machine's, then the conclusion.
pub fn ending(notes: &[String], machine: &Machine, conclusion: &str, width: usize) -> String {
    // The caveat stands above everything.
    let stands_above = |note: &&String| machine.caveat.as_ref() == Some(note);
    let notes = notes.iter().chain(&machine.notes);
    let mut text: String = notes
        .filter(|note| !stands_above(note))
        .map(|note| wrap(note, width, 2))
        .collect();
    text.push('\n');
    text.push_str(&wrap(conclusion, width, 0));
    text
}
