//! Conclusion from the rows, in sentences.

use super::crossover::{Crossover, crossover};
use super::published::crossover_of_p3;
use super::{Layout, Way};
use crate::result::{Quantity, Row};
use crate::run::stats::Spread;
use logforce_terminal::numbers::count;

/// Names the number of pages from which one barrier is cheaper, for each layout, and the published one.
pub fn conclude(rows: &[Row]) -> String {
    let mut sentences = Vec::new();
    for layout in Layout::ALL {
        for way in [Way::WriteThrough, Way::Gathered] {
            sentences.push(sentence(layout, way, &points(rows, layout, way)));
        }
    }
    let published = match crossover_of_p3() {
        Crossover::Between(a, b) => format!("Published: they cross between {a} and {b} pages."),
        _ => String::new(),
    };
    if sentences.iter().all(Option::is_none) {
        let is_offered = |r: &Row| r.way == Way::Barrier || r.error.is_none();
        return match rows.iter().any(|r| is_offered(r) && r.way != Way::Barrier) {
            true => format!("Too little was measured to compare the ways. {published}"),
            false => format!(
                "Nothing can be written through here, so use one barrier for any number of pages. \
                 {published}"
            ),
        };
    }
    sentences.push(Some(published));
    let text: Vec<String> = sentences.into_iter().flatten().collect();
    text.join(" ")
}

fn points(rows: &[Row], layout: Layout, way: Way) -> Vec<(u64, Spread)> {
    let is_of = |r: &&Row| r.layout == layout && r.way == way;
    let mut points: Vec<_> = rows
        .iter()
        .filter(is_of)
        .filter_map(|r| Some((r.pages, r.spread(Quantity::Ratio)?)))
        .collect();
    points.sort_by_key(|(pages, _)| *pages);
    points
}

fn sentence(layout: Layout, way: Way, points: &[(u64, Spread)]) -> Option<String> {
    let where_ = match layout {
        Layout::Contiguous => "Contiguous pages",
        Layout::Scattered => "Scattered pages",
    };
    let how = match way {
        Way::Gathered => "gathered and written through",
        _ => "written through one by one",
    };
    let (first, last) = (points.first()?.0, points.last()?.0);
    let pages = |n: u64| count(n, "page");
    let at = |n: u64| points.iter().find(|(p, _)| *p == n).map(|(_, s)| s.median);
    // The ratio at the largest number of pages, which is the cost of a wrong choice.
    let factor = match at(last) {
        Some(ratio) if ratio >= 1.0 => format!("{ratio:.1} times the barrier's time at {last}"),
        Some(ratio) => format!("{ratio:.2} of the barrier's time at {last}"),
        None => String::new(),
    };
    let found = match crossover(points) {
        Crossover::Between(through, barrier) => format!(
            "are cheaper up to {}, one barrier from {barrier} on ({factor})",
            pages(through)
        ),
        Crossover::From(n) => format!(
            "cost the same as one barrier below {}, and more from there on ({factor})",
            pages(n)
        ),
        Crossover::Always => {
            format!(
                "cost more than one barrier from {} on ({factor})",
                pages(first)
            )
        }
        Crossover::NotUpTo(n) => format!(
            "never cost more than one barrier beyond the noise, up to {} ({factor})",
            pages(n)
        ),
        Crossover::Neither => {
            format!(
                "cost the same as one barrier within the noise, up to {}",
                pages(last)
            )
        }
        Crossover::Unclear => {
            "cost sometimes less and sometimes more than one barrier, so there is no conclusion: \
             measure with more --rounds"
                .to_owned()
        }
        Crossover::Unknown => return None,
    };
    Some(format!("{where_}, {how}, {found}."))
}
