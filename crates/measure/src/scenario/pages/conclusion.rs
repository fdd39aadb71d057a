//! Conclusion from the rows, in sentences.

use super::published::crossover_of_p3;
use super::stretch::{Stretch, stretches};
use super::{Layout, Way};
use crate::result::Row;
use crate::run::{Ratio, Relation};
use logforce_terminal::numbers::{count, short};

/// Number of changes between the ways above which there is no conclusion.
const MOST_STRETCHES: usize = 4;

/// Names the number of pages from which one barrier is cheaper, for each layout, and the published one.
pub fn conclude(rows: &[Row]) -> String {
    let mut sentences = Vec::new();
    for layout in Layout::ALL {
        for way in [Way::WriteThrough, Way::Gathered] {
            sentences.extend(sentence(layout, way, &points(rows, layout, way)));
        }
    }
    let published = crossover_of_p3()
        .map(|(a, b)| format!("Published: they cross between {a} and {b} pages."))
        .unwrap_or_default();
    if sentences.is_empty() {
        let is_offered = |r: &Row| r.way == Way::Barrier || r.error.is_none();
        return match rows.iter().any(|r| is_offered(r) && r.way != Way::Barrier) {
            true => format!("Too little was measured to compare the ways. {published}"),
            false => format!(
                "Nothing can be written through here, so use one barrier for any number of pages. \
                 {published}"
            ),
        };
    }
    sentences.push(published);
    sentences.join(" ")
}

/// Returns the time of a way as a multiple of the barrier's, by number of pages.
fn points(rows: &[Row], layout: Layout, way: Way) -> Vec<(u64, Ratio)> {
    let of = |way: Way| {
        rows.iter()
            .filter(move |r| r.layout == layout && r.way == way)
    };
    let mut points: Vec<_> = of(way)
        .filter_map(|row| {
            let barrier = of(Way::Barrier).find(|b| b.pages == row.pages)?;
            let rounds = row.each.iter().copied().zip(barrier.each.iter().copied());
            Some((row.pages, Ratio::of(row.ratio?, rounds)))
        })
        .collect();
    points.sort_by_key(|(pages, _)| *pages);
    points
}

fn sentence(layout: Layout, way: Way, points: &[(u64, Ratio)]) -> Option<String> {
    let subject = match layout {
        Layout::Contiguous => "Contiguous pages",
        Layout::Scattered => "Scattered pages",
    };
    let how = match way {
        Way::Gathered => "gathered and written through",
        _ => "written through one by one",
    };
    let found = stretches(points);
    let (last, ratio) = points.last()?;
    if found.len() > MOST_STRETCHES {
        return Some(format!(
            "{subject}, {how}, cost sometimes less and sometimes more than one barrier, so there is no \
             conclusion: measure with more --rounds."
        ));
    }
    let parts: Vec<String> = found.iter().map(part).collect();
    // The ratio at the largest number of pages, which is the cost of a wrong choice.
    let factor = match ratio.relation() {
        Relation::More | Relation::Less => {
            format!(
                " ({} times the barrier's time at {last})",
                short(ratio.figure, 2)
            )
        }
        Relation::Same | Relation::Unclear => String::new(),
    };
    Some(format!(
        "{subject}, {how}, beside one barrier: {}{factor}.",
        parts.join("; ")
    ))
}

/// Describes a stretch: `cheaper up to 10 pages`.
fn part(stretch: &Stretch) -> String {
    let (first, last) = stretch.ends();
    let at = match first == last {
        true => format!("at {}", count(first, "page")),
        false => format!("from {first} to {}", count(last, "page")),
    };
    match stretch.relation {
        Relation::Less => format!("cheaper {at}"),
        Relation::Same => format!("the same {at}"),
        Relation::More => format!("more expensive {at}"),
        Relation::Unclear => {
            let why = stretch.widest().map(|r| r.unclear()).unwrap_or_default();
            format!("{why} {at}")
        }
    }
}
