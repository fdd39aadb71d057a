//! The table of all rows.

use super::table::scrolled;
use crate::sign::{DOUBT, Guarantee};
use logforce_measure::Document;
use logforce_measure::result::distribution::FIELD;
use maud::{Markup, html};
use serde_json::{Map, Value};

/// Returns the section with every row, as text that can be copied.
pub fn all_rows(document: &Document) -> Markup {
    let rows: Vec<Map<String, Value>> = document
        .rows
        .iter()
        .map(|row| row.values().unwrap_or_default())
        .collect();
    let mut heads: Vec<&str> = document.kind().row().names().collect();
    // A distribution does not fit into a cell; the charts show it.
    heads.retain(|name| *name != FIELD && rows.iter().any(|r| !cell(r, name).is_empty()));
    html! {
        section id="all" {
            h2 { "All figures" }
            p { "Every row, as in the CSV output; docs/bench-json.md explains the names. Columns without a value in any row are left out. The JSON output also has the distributions." }
            p.soft {
                @for guarantee in Guarantee::ALL { span class=(guarantee.class()) { (guarantee.character()) } " " (guarantee.words()) ". " }
                (DOUBT) "."
            }
            details {
                summary { "Show all " (rows.len()) " rows" }
                (scrolled("All figures", html! {
                    table {
                        thead { tr { @for head in &heads { th scope="col" { (head) } } } }
                        tbody {
                            @for row in &rows {
                                tr { @for head in &heads { td { (cell(row, head)) } } }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn cell(row: &Map<String, Value>, head: &str) -> String {
    match row.get(head) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(n)) => match n.as_f64() {
            Some(value) if n.is_f64() => logforce_terminal::numbers::short(value, 4),
            _ => n.to_string(),
        },
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
