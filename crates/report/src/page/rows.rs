//! The table of all rows.

use super::table::scrolled;
use crate::document::{Document, Row};
use crate::sign::{DOUBT, Guarantee};
use logforce_measure::distribution::FIELD;
use maud::{Markup, html};
use serde_json::Value;

/// Every row, in words that can be copied.
pub fn all_rows(document: &Document) -> Markup {
    let mut heads: Vec<&str> = Vec::new();
    for (name, _) in document.rows().iter().flat_map(Row::fields) {
        // A distribution is drawn; it fits into no cell.
        let has_value = || document.rows().iter().any(|r| !cell(r, name).is_empty());
        if name != FIELD && !heads.contains(&name) && has_value() {
            heads.push(name);
        }
    }
    html! {
        section id="all" {
            h2 { "All figures" }
            p { "Every row as it was written to CSV; the names are those of docs/bench-json.md. Columns without a value in any row are left out; JSON has the distributions too." }
            p.soft {
                @for guarantee in Guarantee::ALL { span class=(guarantee.class()) { (guarantee.character()) } " " (guarantee.words()) ". " }
                (DOUBT) "."
            }
            details {
                summary { "Show all " (document.rows().len()) " rows" }
                (scrolled("All figures", html! {
                    table {
                        thead { tr { @for head in &heads { th scope="col" { (head) } } } }
                        tbody {
                            @for row in document.rows() {
                                tr { @for head in &heads { td { (cell(row, head)) } } }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn cell(row: &Row, head: &str) -> String {
    match row.fields().find(|(name, _)| *name == head) {
        Some((_, Value::String(text))) => text.clone(),
        Some((_, Value::Number(n))) => match n.as_f64() {
            Some(value) if n.is_f64() => logforce_measure::numbers::short(value, 4),
            _ => n.to_string(),
        },
        Some((_, Value::Null)) | None => String::new(),
        Some((_, other)) => other.to_string(),
    }
}
