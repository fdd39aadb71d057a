//! The page of a comparison.

use super::{figure_of, foot, frame};
use crate::amount::amount;
use crate::chart::{Chart, Dot, Dots};
use crate::compare::{Change, Comparison, Detail, NOTE, NOTE_ON_DETAILS, Verdict, mark, summary};
use crate::figure::{Figure, Table};
use crate::sign::Sign;
use logforce_terminal::numbers::short;
use maud::{Markup, html};

/// Maximum number of rows in the chart of the main figure.
const MOST: usize = 40;
/// Maximum number of rows in the chart of a detail.
const MOST_OF_DETAILS: usize = 16;

/// Returns the page of a comparison.
pub fn comparison(comparison: &Comparison) -> Markup {
    let title = format!("{}: B compared with A", crate::title(comparison.kind));
    frame(
        &format!("logforce compare: bench {}", comparison.scenario),
        html! {
            a.skip href="#content" { "Skip to the result" }
            header { h1 { (title) } }
            main id="content" {
                section.conclusion aria-label="Result" { p { (summary(comparison)) } }
                @for note in &comparison.notes { p.warning role="note" { (note) } }
                dl {
                    @for n in 0..2 {
                        dt { (["A", "B"][n]) }
                        dd { (comparison.names[n]) ", " (comparison.started[n]) }
                        dt { "command" }
                        dd { code { (comparison.commands[n]) } }
                    }
                }
                (figure_of(&judged(comparison)))
                p.soft { (NOTE) }
                @for (which, names) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
                    @if !names.is_empty() { p { "Only in " (which) ": " (names.join("; ")) "." } }
                }
                @if !comparison.details.is_empty() {
                    section id="details" {
                        h2 { "Other differences" }
                        p { (NOTE_ON_DETAILS) }
                        @for of in &comparison.details { (figure_of(&detail(of))) }
                    }
                }
            }
            (foot())
        },
    )
}

fn sign(verdict: Verdict) -> Sign {
    match verdict {
        Verdict::Faster => better("B is faster"),
        Verdict::Slower => worse("B is slower"),
        _ => same(),
    }
}

fn sign_of(change: Change) -> Sign {
    match change {
        Change::Less => better("B has less"),
        Change::More => worse("B has more"),
        Change::Same => same(),
    }
}

fn better(words: &'static str) -> Sign {
    Sign {
        class: "g0",
        shape: 0,
        words,
    }
}

fn worse(words: &'static str) -> Sign {
    Sign {
        class: "g3",
        shape: 3,
        words,
    }
}

fn same() -> Sign {
    Sign {
        class: "s5",
        shape: 1,
        words: "within the noise",
    }
}

/// Returns the rows that differ most, the largest ratio first. The table has all rows.
fn most_different(mut rows: Vec<Dot>, most: usize) -> Vec<Dot> {
    rows.retain(|dot| dot.value > 0.0 && dot.value.is_finite());
    rows.sort_by(|a, b| b.value.ln().abs().total_cmp(&a.value.ln().abs()));
    rows.truncate(most);
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    rows
}

/// Returns the chart of the main figure.
fn judged(comparison: &Comparison) -> Figure {
    let dots = comparison.rows.iter().filter_map(|pair| {
        Some(Dot {
            label: pair.row.clone(),
            sign: sign(pair.verdict),
            value: pair.time_ratio?,
            high: None,
            text: pair.change(),
        })
    });
    Figure {
        id: "change".to_owned(),
        title: "Time of a commit: B compared with A".to_owned(),
        caption: format!(
            "Right of the line, B takes longer. The chart shows at most the {MOST} rows that differ most; the table has all rows."
        ),
        chart: Chart::Dots(Dots {
            rows: most_different(dots.collect(), MOST),
            unit: "× A's time".to_owned(),
            base: Some(1.0),
        }),
        table: rows(comparison),
    }
}

/// Returns the chart of a detail.
fn detail(detail: &Detail) -> Figure {
    let mut table = Table::new(["row", "A", "B", "change", "result"]);
    for (n, run) in [(1, "A"), (2, "B")] {
        table.heads[n] = format!("{run}, {}", detail.unit);
    }
    let mut dots = Vec::new();
    for row in &detail.rows {
        let change = match row.ratio {
            Some(ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
            None => "-".to_owned(),
        };
        let sign = sign_of(row.change);
        table.push([
            row.row.clone(),
            short(row.a, 3),
            short(row.b, 3),
            change.clone(),
            row.change.words().to_owned(),
        ]);
        dots.push(Dot {
            label: row.row.clone(),
            sign,
            value: row.ratio.unwrap_or(f64::NAN),
            high: None,
            text: change,
        });
    }
    Figure {
        id: detail.field.replace('_', "-"),
        title: format!("{}: B compared with A", detail.title),
        caption: format!(
            "{}. Right of the line, B has more. The chart shows at most the {MOST_OF_DETAILS} rows that differ most; the table has all \
             rows, including those where A has 0.",
            detail.summary()
        ),
        chart: Chart::Dots(Dots {
            rows: most_different(dots, MOST_OF_DETAILS),
            unit: "× A's".to_owned(),
            base: Some(1.0),
        }),
        table,
    }
}

fn rows(comparison: &Comparison) -> Table {
    let mut of = Table::new(["row", "A", "B", "time", "result"]);
    of.heads[1] = format!("A, {}", comparison.unit);
    of.heads[2] = format!("B, {}", comparison.unit);
    for pair in &comparison.rows {
        of.push([
            pair.row.clone(),
            amount(pair.a),
            amount(pair.b),
            pair.change(),
            format!("{}{}", pair.verdict.words(), mark(pair)),
        ]);
    }
    of
}
