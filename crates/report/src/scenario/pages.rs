//! Figures of `pages`: commits of N pages and a header.

use super::latency::latencies;
use super::parts::{Against, device, spread, steps, words};
use crate::chart::ChartPoint;
use crate::figure::{Figure, Section};
use logforce_measure::pages::P3;
use logforce_measure::{Document, Quantity, Row};

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    let (mut waits, mut counted) = (Vec::new(), Vec::new());
    for layout in words(&rows, |r| r.layout.as_str()) {
        let of: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|r| r.layout.as_str() == layout)
            .collect();
        ratios.extend(ratio(&of, layout));
        rates.extend(rate(&of, layout));
        let most = steps(&of, |r| r.pages)
            .into_iter()
            .filter(|n| *n <= 40)
            .max();
        let named: Vec<_> = of
            .iter()
            .filter(|r| Some(r.pages) == most)
            .map(|r| {
                (
                    format!("{} pages {layout}, {}", r.pages, r.way.as_str()),
                    *r,
                )
            })
            .collect();
        let title = match most {
            Some(pages) => format!("Latency of a commit of {pages} pages, {layout}"),
            None => String::new(),
        };
        waits.extend(latencies(&format!("latency-{layout}"), &title, &named));
        counted.extend(device(&format!("device-{layout}"), &named));
    }
    vec![
        Section {
            id: "crossover",
            title: "From how many pages on is one barrier cheaper?".to_owned(),
            lead: "Time of a commit divided by that with one barrier: below 1 write-through is cheaper, above 1 the barrier is. The \
                   published figures are of a disk of 7200 rpm under Windows that answered from its cache."
                .to_owned(),
            figures: ratios,
        },
        Section {
            id: "rate",
            title: "Commits per second".to_owned(),
            lead: "The same commits as a rate, next to the published ones. Absolute figures of different machines cannot be compared.".to_owned(),
            figures: rates,
        },
        Section {
            id: "latency",
            title: "Latency of a commit".to_owned(),
            lead: "One barrier for all pages, or each page durable by itself: a slow write has different effects.".to_owned(),
            figures: waits,
        },
        Section {
            id: "device",
            title: "Work of the device".to_owned(),
            lead: "Each way costs a different number of writes and flushes.".to_owned(),
            figures: counted,
        },
    ]
}

fn against(
    rows: &[&Row],
    of: Quantity,
    published: Vec<Theirs>,
) -> (Vec<String>, Vec<super::parts::Named>) {
    let pages = steps(rows, |r| r.pages);
    let series = words(rows, |r| r.way.as_str()).into_iter().map(|way| {
        let at = |n: &u64| rows.iter().find(|r| r.pages == *n && r.way.as_str() == way);
        let points = pages.iter().map(|n| spread(at(n)?, of)).collect();
        (way.to_owned(), points, false)
    });
    let theirs = published.into_iter().map(|(name, of)| {
        let points = pages.iter().map(|n| of(*n).map(ChartPoint::of)).collect();
        (name.to_owned(), points, true)
    });
    let steps = pages.iter().map(u64::to_string).collect();
    (steps, series.chain(theirs).collect())
}

/// Published figures of others: their name, and the figure for a number of pages.
type Theirs = (&'static str, fn(u64) -> Option<f64>);

fn published(pages: u64) -> Option<logforce_measure::pages::Published> {
    P3.into_iter().find(|p| p.pages == pages)
}

fn ratio(rows: &[&Row], layout: &str) -> Option<Figure> {
    let (steps, mut series) = against(
        rows,
        Quantity::Ratio,
        vec![("published, written through", |n| {
            published(n).map(|p| p.ratio())
        })],
    );
    series.retain(|(name, ..)| name != "barrier");
    Against {
        id: format!("ratio-{layout}"),
        title: format!("Written through or one barrier, {layout} pages"),
        caption: "Median of the rounds, in each of which both had a turn. The line at a mark spans 8 of 10 rounds. At 1 they cost \
                  the same."
            .to_owned(),
        steps,
        across: "pages".to_owned(),
        unit: "× the barrier's time".to_owned(),
        is_log: true,
        series,
    }
    .figure()
}

fn rate(rows: &[&Row], layout: &str) -> Option<Figure> {
    let theirs: Vec<Theirs> = vec![
        ("published, written through", |n| {
            published(n).map(|p| p.through)
        }),
        ("published, flush", |n| published(n).map(|p| p.flush)),
    ];
    let (steps, series) = against(rows, Quantity::CommitsPerS, theirs);
    Against {
        id: format!("rate-{layout}"),
        title: format!("Commits per second, {layout} pages"),
        caption: "Median of the slices; the line at a mark spans 8 of 10.".to_owned(),
        steps,
        across: "pages".to_owned(),
        unit: "commits/s".to_owned(),
        is_log: true,
        series,
    }
    .figure()
}
