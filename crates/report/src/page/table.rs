//! HTML of tables.

use crate::figure::Table;
use crate::sign::Guarantee;
use maud::{Markup, html};

/// Puts a table into a region that can be scrolled, also by keyboard. A shadow marks an edge beyond which the
/// table continues. If the browser can detect that, a text says that the table scrolls.
pub fn scrolled(name: &str, table: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            p.sideways aria-hidden="true" { "Scrolls sideways →" }
            (table)
        }
    }
}

/// Removes the columns that have no value in any row.
fn without_empty(table: &Table) -> Table {
    let has_value = |n: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(n));
        n == 0 || table.rows.is_empty() || cells.any(|cell| cell != "-" && !cell.is_empty())
    };
    let kept = |row: &Vec<String>| {
        let cells = row.iter().enumerate().filter(|(n, _)| has_value(*n));
        cells.map(|(_, cell)| cell.clone()).collect()
    };
    Table {
        heads: kept(&table.heads),
        rows: table.rows.iter().map(kept).collect(),
    }
}

/// Returns a table of figures.
pub fn table(table: &Table, name: &str) -> Markup {
    let table = without_empty(table);
    let is_words = |n: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(n));
        let is_number =
            |c: &String| c.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
        n == 0 || !cells.clone().any(is_number) && cells.count() > 0
    };
    let classes: Vec<&str> = (0..table.heads.len())
        .map(|n| if is_words(n) { "words" } else { "" })
        .collect();
    let class = |n: usize| classes.get(n).copied().filter(|c| !c.is_empty());
    html! {
        (scrolled(name, html! {
            table {
                thead { tr { @for (n, head) in table.heads.iter().enumerate() { th scope="col" class=[class(n)] { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (n, cell) in row.iter().enumerate() {
                                @if n == 0 { th scope="row" { (signed(cell)) } } @else { td class=[class(n)] { (signed(cell)) } }
                            }
                        }
                    }
                }
            }
        }))
    }
}

/// Returns a text as HTML. A sign of a guarantee at its beginning gets its colour.
fn signed(text: &str) -> Markup {
    for guarantee in Guarantee::ALL {
        if let Some(rest) = text.strip_prefix(guarantee.character()) {
            return html! { span class=(guarantee.class()) aria-hidden="true" { (guarantee.character()) } (rest) };
        }
    }
    html! { (text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let mut of = Table::new(["name", "a", "b", "c"]);
        of.push(["x", "1", "-", ""].map(str::to_owned));
        of.push(["y", "-", "-", ""].map(str::to_owned));
        let left = without_empty(&of);
        assert_eq!(left.heads, ["name", "a"]);
        assert_eq!(left.rows, [["x", "1"], ["y", "-"]]);
        let none = without_empty(&Table::new(["name", "a"]));
        assert_eq!(none.heads, ["name", "a"]);
    }
}
