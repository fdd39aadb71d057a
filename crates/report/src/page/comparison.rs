//! The page of a comparison.

use super::{foot, frame, table};
use crate::chart::{Chart, Dot, Dots, Width, element};
use crate::compare::{Comparison, NOTE, Pair, Verdict, mark, summary};
use crate::figure::{Figure, Table};
use crate::sign::Sign;
use logforce_measure::numbers::number;
use maud::{Markup, html};

/// So many rows are drawn.
const MOST: usize = 40;

/// B beside A.
pub fn comparison(comparison: &Comparison) -> Markup {
    let title = format!("{}: B beside A", comparison.kind.title());
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
                        dt { "made by" }
                        dd { code { (comparison.commands[n]) } }
                    }
                }
                (chart(comparison))
                (rows(comparison))
                p.soft { (NOTE) }
                @for (which, names) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
                    @if !names.is_empty() { p { "Only in " (which) ": " (names.join("; ")) "." } }
                }
            }
            (foot())
        },
    )
}

fn sign(verdict: Verdict) -> Sign {
    let (class, shape) = match verdict {
        Verdict::Faster => ("g0", 0),
        Verdict::Slower => ("g3", 3),
        _ => ("s5", 1),
    };
    Sign {
        class,
        shape,
        words: match verdict {
            Verdict::Faster => "B is faster",
            Verdict::Slower => "B is slower",
            _ => "within the noise",
        },
    }
}

/// The rows that differ most; all of them are in the table.
fn chart(comparison: &Comparison) -> Markup {
    let mut rows: Vec<(f64, &Pair)> = comparison
        .rows
        .iter()
        .filter_map(|p| Some((p.time_ratio?, p)))
        .collect();
    rows.sort_by(|(a, _), (b, _)| b.ln().abs().total_cmp(&a.ln().abs()));
    rows.truncate(MOST);
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let dots = rows.iter().map(|(ratio, pair)| Dot {
        label: pair.row.clone(),
        sign: sign(pair.verdict),
        value: *ratio,
        high: None,
        text: pair.change(),
    });
    let figure = Figure {
        id: "change".to_owned(),
        title: "B's time of a commit beside A's".to_owned(),
        caption: format!(
            "Right of the line B takes longer. At most the {MOST} rows that differ most are shown; the table has all."
        ),
        chart: Chart::Dots(Dots {
            rows: dots.collect(),
            unit: "× A's time".to_owned(),
            base: Some(1.0),
        }),
        table: Table::default(),
    };
    html! {
        @if !rows.is_empty() {
            figure aria-labelledby="f-change-t" {
                h3 id="f-change-t" { (figure.title) }
                figcaption { (figure.caption) }
                (element(&figure, Width::Wide))
                (element(&figure, Width::Narrow))
            }
        }
    }
}

fn rows(comparison: &Comparison) -> Markup {
    let mut of = Table::new(["row", "A", "B", "time", "result"]);
    of.heads[1] = format!("A, {}", comparison.unit);
    of.heads[2] = format!("B, {}", comparison.unit);
    for pair in &comparison.rows {
        of.push([
            pair.row.clone(),
            number(pair.a, 4),
            number(pair.b, 4),
            pair.change(),
            format!("{}{}", pair.verdict.words(), mark(pair)),
        ]);
    }
    table(&of, "Rows of both")
}
