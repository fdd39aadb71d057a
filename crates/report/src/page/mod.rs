//! The page around the charts: HTML that asks for nothing, neither a script nor a font.

mod comparison;

use crate::chart::{Width, element};
use crate::document::{Document, Row};
use crate::figure::{Figure, Section, Table};
use crate::sign::{DOUBT, Guarantee};
pub use comparison::comparison;
use logforce_measure::distribution::FIELD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// Of the charts, also where they are files of their own.
pub const STYLE_OF_CHARTS: &str = include_str!("charts.css");
const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded, nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

fn frame(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                // No icon is asked for.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE_OF_CHARTS)) (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

/// A report of one run.
pub fn report(document: &Document, sections: &[Section]) -> Markup {
    let title = document.kind().title();
    let links = sections.iter().map(|s| (s.id, s.title.as_str()));
    let more = [("machine", "Machine and command"), ("all", "All figures")];
    frame(
        &format!("{title}: logforce bench {}", document.kind().name()),
        html! {
            a.skip href="#content" { "Skip to the conclusion" }
            header {
                h1 { (title) }
                p.soft { (where_and_when(document)) }
            }
            main id="content" {
                (warnings(document))
                @let conclusion = document.text("conclusion");
                @if !conclusion.is_empty() {
                    section.conclusion aria-label="Conclusion" {
                        @let sentences = sentences(conclusion);
                        @if let Some(first) = sentences.first() { p { strong { (first) } } }
                        @if sentences.len() > 1 { ul { @for sentence in &sentences[1..] { li { (sentence) } } } }
                    }
                }
                nav aria-label="Sections" {
                    ul { @for (id, name) in links.chain(more) { li { a href=(format!("#{id}")) { (name) } } } }
                }
                @for section in sections {
                    section id=(section.id) {
                        h2 { (section.title) }
                        p { (section.lead) }
                        @for figure in &section.figures { (figure_of(figure)) }
                    }
                }
                (machine(document))
                (all_rows(document))
            }
            (foot())
        },
    )
}

/// A text as its sentences: a point, a space, and a capital letter.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(". ") {
        let next = text[at + 2..].trim_start();
        if next.starts_with(|c: char| c.is_uppercase()) {
            sentences.push(text[from..=at].trim());
            from = at + 1;
        }
    }
    sentences.extend(text[from..].lines().map(str::trim));
    sentences.retain(|s| !s.is_empty());
    sentences
}

fn foot() -> Markup {
    html! {
        footer { p.soft { "Made by logforce " (env!("CARGO_PKG_VERSION")) ". The page holds everything: it loads nothing and runs nothing." } }
    }
}

fn where_and_when(document: &Document) -> String {
    let parts = [
        document.machine_text("filesystem"),
        match document.machine_text("model") {
            model if model.is_empty() => document.machine_text("device"),
            model => model,
        },
        format!(
            "{} {}",
            document.machine_text("os"),
            document.machine_text("kernel")
        ),
        document.text("started").to_owned(),
    ];
    let parts = parts.iter().map(|p| p.trim()).filter(|p| !p.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}

fn warnings(document: &Document) -> Markup {
    let failed = document
        .rows()
        .iter()
        .filter(|r| r.error().is_some())
        .count();
    let field = document.kind().metric().field;
    let empty = document.rows().iter();
    let empty = empty.filter(|r| document.made_nothing(r)).count();
    html! {
        @if document.is_interrupted() {
            p.warning role="note" { strong { "Interrupted. " } "The run was stopped by its user: figures hold what was measured until then." }
        }
        @if failed > 0 {
            p.warning role="note" { (failed) " of " (document.rows().len()) " rows could not be measured; the table at the end says why." }
        }
        @if empty > 0 {
            p.warning role="note" { (empty) " of " (document.rows().len()) " rows made nothing (their " code { (field) } " is 0 or less); they are in the table at the end alone." }
        }
    }
}

fn figure_of(figure: &Figure) -> Markup {
    let id = format!("f-{}", figure.id);
    html! {
        figure id=(id) aria-labelledby=(format!("{id}-t")) {
            h3 id=(format!("{id}-t")) { (figure.title) }
            figcaption { (figure.caption) }
            (element(figure, Width::Wide))
            (element(figure, Width::Narrow))
            (table(&figure.table, &format!("Figures of: {}", figure.title)))
        }
    }
}

/// A table in a region of its own, which can be scrolled by keyboard too.
fn table(table: &Table, name: &str) -> Markup {
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
        div.scroll tabindex="0" role="region" aria-label=(name) {
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
        }
    }
}

/// Words; a sign of a guarantee at their beginning gets its colour.
fn signed(text: &str) -> Markup {
    for guarantee in Guarantee::ALL {
        if let Some(rest) = text.strip_prefix(guarantee.character()) {
            return html! { span class=(guarantee.class()) aria-hidden="true" { (guarantee.character()) } (rest) };
        }
    }
    html! { (text) }
}

fn machine(document: &Document) -> Markup {
    const FIELDS: [(&str, &str); 12] = [
        ("os", "Operating system"),
        ("kernel", "Kernel"),
        ("arch", "Processor architecture"),
        ("cpus", "Processors"),
        ("filesystem", "Filesystem"),
        ("mount_point", "Mounted at"),
        ("mount_options", "Mount options"),
        ("device", "Device"),
        ("model", "Model"),
        ("write_cache", "Write cache"),
        ("fua", "Takes FUA writes"),
        ("write_unit", "Write unit, bytes"),
    ];
    html! {
        section id="machine" {
            h2 { "Machine and command" }
            p { "To repeat it:" }
            pre { (document.text("command")) }
            dl {
                @for (field, name) in FIELDS {
                    @let value = document.machine_text(field);
                    @if !value.is_empty() { dt { (name) } dd { (value) } }
                }
            }
            @let notes = document.sentences("notes");
            @let told = document.machine("notes").and_then(Value::as_array);
            @let told = told.into_iter().flatten().filter_map(Value::as_str);
            @for note in notes.iter().copied().chain(told) { p.soft { (note) } }
        }
    }
}

fn all_rows(document: &Document) -> Markup {
    let mut heads: Vec<&str> = Vec::new();
    for (name, _) in document.rows().iter().flat_map(Row::fields) {
        // A distribution is drawn; it fits into no cell.
        if name != FIELD && !heads.contains(&name) {
            heads.push(name);
        }
    }
    html! {
        section id="all" {
            h2 { "All figures" }
            p { "Every row as it was written to CSV; the names are those of docs/bench-json.md. JSON has the distributions too." }
            p.soft {
                @for guarantee in Guarantee::ALL { span class=(guarantee.class()) { (guarantee.character()) } " " (guarantee.words()) ". " }
                (DOUBT) "."
            }
            details {
                summary { "Show all " (document.rows().len()) " rows" }
                div.scroll tabindex="0" role="region" aria-label="All figures" {
                    table {
                        thead { tr { @for head in &heads { th scope="col" { (head) } } } }
                        tbody {
                            @for row in document.rows() {
                                tr { @for head in &heads { td { (cell(row, head)) } } }
                            }
                        }
                    }
                }
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

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn a_text_is_taken_apart_at_its_sentences() {
        let text = "Use x here. It took 0.2 ms. of time. Fill files.\n\nA line";
        let parts = [
            "Use x here.",
            "It took 0.2 ms. of time.",
            "Fill files.",
            "A line",
        ];
        assert_eq!(sentences(text), parts);
        assert_eq!(sentences(""), [""; 0]);
    }
}
