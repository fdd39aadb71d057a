//! The sentences around the table of a report for people.

use crate::result::document::Document;
use crate::result::row::Row;
use logforce_device::{Guarantee, Verdict};
use logforce_terminal::layout::wrap;

/// Notice that fewer rounds follow than were requested.
pub const INTERRUPTED: &str =
    "Interrupted: the table holds only what was measured until then, in whole rounds.\n";

/// Notice that fewer slices follow than were requested.
pub const CUT: &str = "Interrupted: the table holds only what was measured until then.\n";

/// Returns the headline above the table: the workload and the machine.
pub fn title(what: &str, document: &Document, width: usize) -> String {
    let mut text = wrap(&format!("{what}; {}", document.machine), width, 0);
    if document.interrupted {
        text.push_str(INTERRUPTED);
    }
    text.push('\n');
    text
}

/// Names the columns that do not fit the width; returns an empty text if all fit.
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

/// Returns the notes of the document and of the machine, then the conclusion.
pub fn ending(document: &Document, width: usize) -> String {
    // The caveat is already printed above the report.
    let machine = &document.machine;
    let stands_above = |note: &&String| machine.caveat.as_ref() == Some(note);
    let notes = document.notes.iter().chain(&machine.notes);
    let mut text: String = notes
        .filter(|note| !stands_above(note))
        .map(|note| wrap(note, width, 2))
        .collect();
    text.push('\n');
    text.push_str(&wrap(&document.conclusion, width, 0));
    text
}

/// Puts a warning in front of the conclusion if no row survives power loss, for example on tmpfs. The
/// figures are then not those of durable commits. Rows without a guarantee, such as those that were
/// not measured, do not count.
pub fn warned(rows: &[Row], conclusion: String) -> String {
    let known: Vec<_> = rows
        .iter()
        .filter_map(|r| Some((r.guarantee?, r.verdict)))
        .collect();
    let is_safe = |(guarantee, verdict): &(Guarantee, Option<Verdict>)| {
        let is_refuted = matches!(verdict, Some(Verdict::Contradicted | Verdict::Implausible));
        *guarantee == Guarantee::PowerLoss && !is_refuted
    };
    if known.is_empty() || known.iter().any(is_safe) {
        return conclusion;
    }
    format!(
        "Nothing measured here survives power loss. The figures show the speed of this directory, not the cost of a \
         durable commit. {conclusion}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Guarantee::{PowerLoss, ProcessCrash};

    #[test]
    fn a_conclusion_about_memory_says_so_first() {
        let of = |rows: &[(Option<Guarantee>, Option<Verdict>)]| {
            let row = |&(guarantee, verdict)| Row {
                guarantee,
                verdict,
                ..Row::default()
            };
            let rows: Vec<Row> = rows.iter().map(row).collect();
            warned(&rows, "Use x.".to_owned()) != "Use x."
        };
        let safe = (Some(PowerLoss), Some(Verdict::Declared));
        let memory = (Some(ProcessCrash), Some(Verdict::Contradicted));
        assert!(of(&[memory, (None, None)]));
        assert!(of(&[(Some(PowerLoss), Some(Verdict::Implausible))]));
        assert!(!of(&[memory, safe]));
        assert!(!of(&[(Some(PowerLoss), Some(Verdict::Unknown))]));
        assert!(!of(&[(None, None)]) && !of(&[]), "nothing is known");
    }
}
