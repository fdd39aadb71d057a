//! Figures of each scenario.

mod group;
mod inserts;
mod journal;
mod latency;
mod map;
mod pages;
mod parts;
mod published;
mod sweep;

use crate::figure::Section;
use logforce_measure::{Document, Kind};

/// Returns the sections of a report that have figures.
pub fn sections(document: &Document) -> Vec<Section> {
    let mut sections = match document.kind() {
        Kind::Journal => journal::sections(document),
        Kind::Group => group::sections(document),
        Kind::Pages => pages::sections(document),
        Kind::Map => map::sections(document),
        Kind::Sweep => sweep::sections(document),
        Kind::Inserts => inserts::sections(document),
    };
    sections.retain(|s| !s.figures.is_empty());
    sections
}
