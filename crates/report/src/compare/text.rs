//! A comparison for a terminal.

use super::{Comparison, Pair, Verdict};
use crate::amount::amount;
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::count;

impl Verdict {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "SLOWER",
            Verdict::Same => "same",
            Verdict::Failed => "NONE in B",
            Verdict::Recovered => "none in A",
            Verdict::Unmeasured => "n/a",
        }
    }
}

impl Pair {
    /// B's time beside A's, in words.
    pub fn change(&self) -> String {
        match self.time_ratio {
            None => "-".to_owned(),
            Some(ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        }
    }
}

/// How it was judged.
pub const NOTE: &str = "Time: B's time of a commit beside A's. Faster and slower: 8 of 10 slices of one run lie beyond 8 of 10 of the \
    other, and the medians differ by 2 % at least; where a row has no slices, or less than three rounds, from a quarter on (~).";

/// How the rest was judged.
pub const NOTE_ON_DETAILS: &str = "Less is better in all of these. They have no slices of their own: a difference counts from a quarter on, \
    and of latencies only where it is larger than the slices of either run lie apart.";

/// The outcome in a sentence.
pub fn summary(comparison: &Comparison) -> String {
    let of = |v| comparison.count(v);
    let (slower, faster, same) = (of(Verdict::Slower), of(Verdict::Faster), of(Verdict::Same));
    let mut parts = vec![
        format!("{slower} slower"),
        format!("{faster} faster"),
        format!("{same} within the noise"),
    ];
    for (n, words) in [
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

/// All of it for a terminal of `width` characters.
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
            format!("{}{}", p.verdict.words(), mark(p))
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

/// Behind a verdict that rests on no slices.
pub fn mark(pair: &Pair) -> &'static str {
    match pair.verdict {
        Verdict::Faster | Verdict::Slower | Verdict::Same if !pair.is_known_noise => " ~",
        _ => "",
    }
}
