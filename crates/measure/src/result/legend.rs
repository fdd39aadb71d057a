//! The sentences around the table of a report for people.

use crate::result::document::Document;
use crate::result::row::Row;
use crate::run::cpu::BUSY_NOTE;
use logforce_device::{Guarantee, Verdict};
use logforce_terminal::layout::wrap;

/// Notice that fewer rounds follow than were requested.
pub const INTERRUPTED: &str =
    "Interrupted: the table holds only what was measured until then, in whole rounds.\n";

/// Notice that fewer slices follow than were requested.
pub const CUT: &str = "Interrupted: the table holds only what was measured until then.\n";

/// Number of lines of a report that shows neither all nor the published figures.
pub const MOST_LINES: usize = 10;

/// Parts of a report that follow the conclusion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    /// True for all tables and notes.
    pub all: bool,
    /// True for the published figures of the same workload.
    pub published: bool,
}

/// Everything, for the tests of this crate.
#[cfg(test)]
pub const EVERYTHING: Shown = Shown {
    all: true,
    published: true,
};

impl Shown {
    /// Returns whether only the conclusion is shown.
    pub fn is_brief(self) -> bool {
        self == Shown::default()
    }
}

/// Returns the beginning of a report: the workload and the machine, then the conclusion. `cut` is the notice of an
/// interrupted run. A brief report ends with it, and keeps as many sentences as fit into [`MOST_LINES`].
pub fn beginning(what: &str, document: &Document, shown: Shown, cut: &str, width: usize) -> String {
    let mut text = wrap(&format!("{what}; {}", document.machine), width, 0);
    if document.interrupted {
        text.push_str(cut);
    }
    text.push('\n');
    if !shown.is_brief() {
        if !document.conclusion.is_empty() {
            text.push_str(&wrap(&document.conclusion, width, 0));
            text.push('\n');
        }
        return text;
    }
    let busy = document
        .notes
        .iter()
        .find(|note| note.starts_with(BUSY_NOTE));
    let busy = busy.and_then(|note| sentences(note).into_iter().next());
    let busy = busy.map_or_else(String::new, |note| wrap(note, width, 2));
    let hint = wrap(
        "--all shows every table and note; --json and --report write them to a file.",
        width,
        0,
    );
    let lines = |text: &str| text.lines().count();
    let space = MOST_LINES.saturating_sub(lines(&text) + lines(&busy) + lines(&hint));
    let mut conclusion = String::new();
    let mut kept = String::new();
    for sentence in sentences(&document.conclusion) {
        kept = format!("{kept} {sentence}");
        let next = wrap(&kept, width, 0);
        if !conclusion.is_empty() && lines(&next) > space {
            break;
        }
        conclusion = next;
    }
    text + &conclusion + &busy + &hint
}

/// Returns the sentences of a text: each ends with a period, and the next begins with a capital letter.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut rest = text;
    let end = |rest: &str| {
        let ends = rest.match_indices(". ").map(|(at, _)| at + 1);
        ends.into_iter()
            .find(|at| rest[at + 1..].starts_with(char::is_uppercase))
    };
    while let Some(at) = end(rest) {
        let (sentence, behind) = rest.split_at(at);
        sentences.push(sentence);
        rest = behind.trim_start();
    }
    if !rest.is_empty() {
        sentences.push(rest);
    }
    sentences
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

/// Returns the notes of the document and of the machine.
pub fn ending(document: &Document, width: usize) -> String {
    // The caveat is already printed above the report.
    let machine = &document.machine;
    let stands_above = |note: &&String| machine.caveat.as_ref() == Some(note);
    let notes = document.notes.iter().chain(&machine.notes);
    notes
        .filter(|note| !stands_above(note))
        .map(|note| wrap(note, width, 2))
        .collect()
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
    use crate::result::Kind;

    #[test]
    fn a_brief_report_has_ten_lines_and_whole_sentences() {
        let mut document = crate::testing::document(Kind::Journal);
        let long = "One two three four five six seven eight nine ten, up to 2.5 ms (e.g. here). ";
        document.conclusion = format!("Use x. {}Last.", long.repeat(20));
        document.notes = vec![format!("{BUSY_NOTE}: 50 % of it. Then more.")];
        for width in [60, 80, 120] {
            let text = beginning("Writes", &document, Shown::default(), CUT, width);
            assert!((8..=MOST_LINES).contains(&text.lines().count()), "{text}");
            assert!(text.contains("\nUse x. One two"), "{text}");
            assert!(
                text.contains(&format!("here).\n{BUSY_NOTE}: 50 % of it.\n--all shows")),
                "{text}"
            );
            assert!(!text.contains("Last."), "{text}");
        }
        let all = Shown {
            all: true,
            ..Shown::default()
        };
        assert!(beginning("Writes", &document, all, CUT, 80).ends_with("Last.\n\n"));
    }
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
