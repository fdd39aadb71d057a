//! The page around the charts: HTML that loads nothing, neither scripts nor fonts.

mod comparison;
#[cfg(target_os = "linux")]
mod crashtest;
mod doctor;
mod prose;
mod rows;
mod table;

use crate::chart::{STYLE_OF_CHARTS, Width};
use crate::figure::{Figure, Section};
use crate::title;
pub use comparison::comparison;
#[cfg(target_os = "linux")]
pub use crashtest::crashtest;
pub use doctor::doctor;
use logforce_measure::Document;
use logforce_terminal::numbers::bytes;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use prose::{prose, sentences};
use rows::all_rows;
use table::table;

const STYLE: &str = include_str!("page.css");

/// Policy that forbids the page to load or run anything.
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
                // Keeps the browser from requesting an icon.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE_OF_CHARTS)) (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

/// Returns the report of one run.
pub fn report(document: &Document, sections: &[Section]) -> Markup {
    let title = title(document.kind());
    let place = place(document);
    let whole = [title, &place].into_iter().filter(|part| !part.is_empty());
    let whole = whole.collect::<Vec<_>>().join(": ");
    let links = sections.iter().map(|s| (s.id, s.title.as_str()));
    let more = [("machine", "Machine and command"), ("all", "All figures")];
    frame(
        &whole,
        html! {
            a.skip href="#content" { "Skip to the conclusion" }
            header {
                h1 { (title) @if !place.is_empty() { span.place { (place) } } }
                p.soft { (system_and_time(document)) }
            }
            main id="content" {
                (warnings(document))
                @let conclusion = &document.conclusion;
                @if !conclusion.is_empty() {
                    section.conclusion aria-label="Conclusion" {
                        @let sentences = sentences(conclusion);
                        @if let Some(first) = sentences.first() { p { strong { (prose(first)) } } }
                        @if sentences.len() > 1 { ul { @for sentence in &sentences[1..] { li { (prose(sentence)) } } } }
                    }
                }
                nav aria-label="Sections" {
                    ul { @for (id, name) in links.chain(more) { li { a href=(format!("#{id}")) { (name) } } } }
                }
                @for section in sections {
                    section id=(section.id) {
                        h2 { (section.title) }
                        p { (prose(&section.lead)) }
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

fn foot() -> Markup {
    html! {
        footer { p.soft { "Made by logforce " (env!("CARGO_PKG_VERSION")) ". The page is self-contained: it loads nothing and runs no scripts." } }
    }
}

/// Returns the measured place: computer, directory, filesystem, device and size. An older result names only
/// some of them.
fn place(document: &Document) -> String {
    let machine = &document.machine;
    let device = match (&machine.device, &machine.model) {
        (Some(device), Some(model)) => format!(" on {device} ({model})"),
        (Some(device), None) => format!(" on {device}"),
        (None, _) => String::new(),
    };
    let directory = match machine.directory.as_str() {
        "" => &machine.mount_point,
        directory => directory,
    };
    let parts = [
        machine.host.clone(),
        directory.to_owned(),
        format!("{}{device}", machine.filesystem),
        machine.capacity.map_or_else(String::new, bytes),
    ];
    joined(&parts, ", ")
}

fn system_and_time(document: &Document) -> String {
    let machine = &document.machine;
    let system = format!("{} {}", machine.os, machine.kernel);
    let command = format!("logforce bench {}", document.kind().name());
    joined(&[command, system, document.started.clone()], " · ")
}

/// Joins the parts that are not empty.
fn joined(parts: &[String], by: &str) -> String {
    let parts = parts.iter().map(|p| p.trim()).filter(|p| !p.is_empty());
    parts.collect::<Vec<_>>().join(by)
}

fn warnings(document: &Document) -> Markup {
    let failed = document.rows.iter().filter(|r| r.error.is_some()).count();
    let field = document.kind().quantity().field();
    let empty = document.rows.iter();
    let empty = empty.filter(|r| document.made_nothing(r)).count();
    html! {
        @if document.interrupted {
            p.warning role="note" { strong { "Interrupted. " } "The user stopped the run: the figures cover only what was measured until then." }
        }
        @if failed > 0 {
            p.warning role="note" { (failed) " of " (document.rows.len()) " rows could not be measured; the table at the end has the reasons." }
        }
        @if empty > 0 {
            p.warning role="note" { (empty) " of " (document.rows.len()) " rows made no commits (their " code { (field) } " is 0 or less); they are only in the table at the end." }
        }
    }
}

fn figure_of(figure: &Figure) -> Markup {
    let id = format!("f-{}", figure.id);
    html! {
        figure id=(id) aria-labelledby=(format!("{id}-t")) {
            h3 id=(format!("{id}-t")) { (figure.title) }
            figcaption { (prose(&figure.caption)) }
            (figure.chart.element(&figure.title, &figure.caption, Width::Wide))
            (figure.chart.element(&figure.title, &figure.caption, Width::Narrow))
            (table(&figure.table, &format!("Figures of: {}", figure.title)))
        }
    }
}

fn machine(document: &Document) -> Markup {
    const FIELDS: [(&str, &str); 16] = [
        ("host", "Computer"),
        ("directory", "Directory"),
        ("os", "Operating system"),
        ("kernel", "Kernel"),
        ("arch", "Processor architecture"),
        ("cpus", "Processors"),
        ("filesystem", "Filesystem"),
        ("volume", "Volume"),
        ("capacity", "Size of the volume"),
        ("mount_point", "Mounted at"),
        ("mount_options", "Mount options"),
        ("device", "Device"),
        ("model", "Model"),
        ("write_cache", "Write cache"),
        ("fua", "Supports FUA writes"),
        ("write_unit", "Write unit, bytes"),
    ];
    let told = document.machine.told();
    html! {
        section id="machine" {
            h2 { "Machine and command" }
            p { "To repeat this run:" }
            pre { (document.command) }
            dl {
                @for (field, name) in FIELDS {
                    @for (_, value) in told.iter().filter(|(of, _)| *of == field) { dt { (name) } dd { (value) } }
                }
            }
            @for note in document.notes.iter().chain(&document.machine.notes) { p.soft { (prose(note)) } }
        }
    }
}
