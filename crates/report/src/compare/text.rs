//! Comparison as text for a terminal.

use super::{Comparison, Control, Pair, Verdict};
use crate::amount::amount;
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{count, short};

impl Verdict {
    /// Returns the verdict in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "SLOWER",
            Verdict::Same => "same",
            Verdict::Noisy => "too noisy to tell",
            Verdict::Machine => "machine moved",
            Verdict::Failed => "NO FIGURE in B",
            Verdict::Recovered => "no figure in A",
            Verdict::Unmeasured => "n/a",
        }
    }
}

impl Pair {
    /// Returns the change of the time from A to B, in percent.
    pub fn change(&self) -> String {
        match self.time_ratio {
            None => "-".to_owned(),
            Some(ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        }
    }
}

/// Explanation of the verdicts.
pub const NOTE: &str = "Time: change of the time of a commit from A to B. Faster and slower: 8 of 10 slices of one run lie beyond 8 of 10 \
    of the other, by more than the machine moved, and the medians differ by at least 2 %. Same: the ratio is within 0.8 to 1.25, \
    noise included. A row without slices, or with fewer than three rounds, is marked ~; there a difference counts from 25 % on.";

/// Explanation of the results of the details.
pub const NOTE_ON_DETAILS: &str = "Less is better in all of these. They are known only for all slices together, so a difference counts from \
    25 % on. A difference in latency must also be larger than the spread of the slices of either run.";

/// Returns the outcome in a sentence.
pub fn summary(comparison: &Comparison) -> String {
    let of = |v| comparison.count(v);
    let (slower, faster, same) = (of(Verdict::Slower), of(Verdict::Faster), of(Verdict::Same));
    let mut parts = vec![
        format!("{slower} slower"),
        format!("{faster} faster"),
        format!("{same} the same"),
    ];
    for (n, words) in [
        (of(Verdict::Noisy), "too noisy to tell"),
        (of(Verdict::Machine), "changed no more than the machine"),
        (of(Verdict::Failed), "without a figure in B"),
        (of(Verdict::Recovered), "without a figure in A"),
        (of(Verdict::Unmeasured), "measured in neither"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {words}"));
        }
    }
    let missing = match comparison.not_comparable.len() {
        0 => String::new(),
        n => format!(" {n} more of A cannot be compared."),
    };
    format!(
        "Of {} in both: {}.{missing}",
        count(comparison.rows.len() as u64, "row"),
        parts.join(", ")
    )
}

/// Describes the movement of the machine between the two runs.
pub fn control(comparison: &Comparison) -> String {
    let Control {
        rows,
        movement,
        cpu_wait_percent,
    } = &comparison.control;
    let mut text = match rows {
        0 => format!(
            "No row is a control for the machine, so a change counts from {} times on.",
            short(*movement, 2)
        ),
        n => format!(
            "Control: {} that force nothing moved by up to {} times, so a change counts above that.",
            count(*n as u64, "row"),
            short(*movement, 2)
        ),
    };
    if let [Some(a), Some(b)] = cpu_wait_percent {
        text.push_str(&format!(
            " Threads waited for a processor in {a:.0} % of A's time and {b:.0} % of B's; that time does not count."
        ));
    }
    text
}

/// Returns the interval of a ratio that is too noisy to tell.
fn interval(pair: &Pair) -> String {
    match (
        pair.verdict,
        pair.time_ratio_at_least,
        pair.time_ratio_at_most,
    ) {
        (Verdict::Noisy, Some(low), Some(high)) => {
            format!(" ({} to {})", short(low, 2), short(high, 2))
        }
        _ => String::new(),
    }
}

/// Returns the comparison for a terminal of `width` characters.
pub fn text(comparison: &Comparison, width: usize) -> String {
    let [a, b] = &comparison.names;
    let mut text = wrap(
        &format!(
            "bench {}, {}: A is {a} ({}), B is {b} ({})",
            comparison.scenario, comparison.unit, comparison.started[0], comparison.started[1]
        ),
        width,
        0,
    );
    for note in &comparison.notes {
        text.push_str(&wrap(note, width, 0));
    }
    text.push('\n');
    let columns = vec![
        Column::text("", 0, |p: &Pair| p.row.clone()),
        Column::number("A", 0, |p: &Pair| amount(p.a)),
        Column::number("B", 0, |p: &Pair| amount(p.b)),
        Column::number("time", 0, Pair::change),
        Column::text("", 0, |p: &Pair| {
            format!("{}{}{}", p.verdict.words(), interval(p), mark(p))
        }),
    ];
    let rows = comparison.rows.iter().map(|p| (String::new(), p.clone()));
    let (table, _) = fitted(&columns, &sections(rows), width);
    text.push_str(&table);
    text.push('\n');
    for (which, names) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !names.is_empty() {
            text.push_str(&wrap(
                &format!("Only in {which}: {}.", names.join("; ")),
                width,
                0,
            ));
        }
    }
    text.push_str(&wrap(&summary(comparison), width, 0));
    text.push_str(&wrap(&control(comparison), width, 0));
    for detail in &comparison.details {
        text.push_str(&wrap(
            &format!("{}: {}.", detail.title, detail.summary()),
            width,
            2,
        ));
    }
    if !comparison.details.is_empty() {
        text.push_str(&wrap(NOTE_ON_DETAILS, width, 2));
    }
    text.push_str(&wrap(NOTE, width, 2));
    text
}

/// Returns the mark after a verdict that is not based on slices.
pub fn mark(pair: &Pair) -> &'static str {
    match pair.verdict {
        Verdict::Failed | Verdict::Recovered | Verdict::Unmeasured => "",
        _ if !pair.is_known_noise => " ~",
        _ => "",
    }
}
