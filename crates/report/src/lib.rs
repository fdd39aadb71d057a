//! Reports of `logforce bench` that one looks at and passes on: one HTML file without a network, or its
//! charts as SVG; and the comparison of two runs.
//!
//! All of it is made from the JSON that the scenarios write (`docs/bench-json.md`), so a report can be
//! made of a file from another machine, and of an older one.
//!
//! - [`Document`] is that JSON, read by the crate that writes it.
//! - `scenario` says which figures a scenario has.
//! - `chart` draws one as SVG; `page` puts all into HTML.
//! - [`compare`] matches the rows of two runs.

#![forbid(unsafe_code)]

mod amount;
mod chart;
pub mod compare;
mod figure;
mod page;
mod scenario;
mod sign;
mod time;

use figure::Section;
use logforce_measure::Kind;
use logforce_measure::result::document::clean;
pub use logforce_measure::{Document, ReportError};
use time::{tick, time};

/// The report as one HTML file.
pub fn html(document: &Document) -> String {
    // What was measured just now may hold what moves a cursor, as a command line can.
    clean(&page::report(document, &scenario::sections(document)).into_string())
}

/// The charts of the report, each as a file name and its contents: SVG of its own, on white or no
/// ground, for a paper.
pub fn svgs(document: &Document) -> Vec<(String, String)> {
    let sections = scenario::sections(document);
    let figures = sections.iter().flat_map(|s: &Section| &s.figures);
    let name = document.kind().name().replace(" --", "-");
    figures
        .map(|f| {
            (
                format!("{name}-{}.svg", f.id),
                clean(&f.chart.file(&f.title, &f.caption)),
            )
        })
        .collect()
}

/// The comparison as one HTML file.
pub fn compare_html(comparison: &compare::Comparison) -> String {
    page::comparison(comparison).into_string()
}

/// Returns the title of a page.
fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Journal => "What a commit costs on this disk",
        Kind::Group => "Commits to one log by many threads",
        Kind::Pages => "Commits of N pages and a header",
        Kind::Map => "Small commits to a large file",
        Kind::Sweep => "How many writes in flight, and of what size",
        Kind::Inserts => "What durability costs at a till",
    }
}
