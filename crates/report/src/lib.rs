//! Reports of `logforce bench`: a self-contained HTML file, or its charts as SVG files. Also the comparison
//! of two runs, and the reports of `logforce crashtest` and `logforce doctor`.
//!
//! The input is the JSON that the scenarios write (`docs/bench-json.md`). So a report can be made from the
//! file of another machine or of an older version.
//!
//! - [`Document`]: that JSON. The crate that writes it also reads it.
//! - `scenario`: the figures of each scenario.
//! - `chart`: draws a figure as SVG. `page`: puts all figures into HTML.
//! - [`compare`]: matches the rows of two runs.

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

/// Returns the report as one HTML file.
pub fn html(document: &Document) -> String {
    // A document of the present run is not cleaned yet: its command line may hold control characters.
    clean(&page::report(document, &scenario::sections(document)).into_string())
}

/// Returns the charts of the report, each as a file name and a complete SVG, for use in a paper.
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

/// Returns the comparison as one HTML file.
pub fn compare_html(comparison: &compare::Comparison) -> String {
    page::comparison(comparison).into_string()
}

/// Returns the report of a crash test as one HTML file.
#[cfg(target_os = "linux")]
pub fn crashtest_html(report: &logforce_crashtest::report::Report) -> String {
    clean(&page::crashtest(report).into_string())
}

/// Returns the result of an examination as one HTML file.
pub fn doctor_html(doctor: &logforce_measure::doctor::Doctor) -> String {
    clean(&page::doctor(doctor).into_string())
}

/// Returns the title of a page.
fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Journal => "Cost of a commit on this disk",
        Kind::Group => "Commits to one log by many threads",
        Kind::Pages => "Commits of N pages and a header",
        Kind::Map => "Small commits to a large file",
        Kind::Sweep => "Number and size of writes in flight",
        Kind::Inserts => "Cost of durability at a till",
    }
}
