//! Figures of `inserts`: inserts at a till, on the log and on databases.

use super::latency::latencies;
use super::parts::{Against, device, multiple, ratio, signed, steps, value, words};
use super::published::published;
use crate::amount::significant;
use crate::chart::{Chart, ChartPoint, Dot, Dots, MOST};
use crate::figure::{Figure, Section, Table};
use crate::sign::{DOUBT, Guarantee, doubt};
use crate::time;
use logforce_measure::{Document, Row};
use logforce_terminal::numbers::count;

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let alone: Vec<(String, &Row)> = rows
        .iter()
        .filter(|r| r.pairs_s.is_some())
        .map(|r| (name(r), *r))
        .collect();
    let safe = |r: &&Row| Guarantee::of(r) == Guarantee::PowerLoss && doubt(r) != " !";
    let durable: Vec<&Row> = rows.iter().copied().filter(safe).collect();
    vec![
        Section {
            id: "pairs",
            title: "Cost of durability at a till".to_owned(),
            lead: "One client inserts a sale and commits it, again and again. Compare settings only if they survive the same failures.".to_owned(),
            figures: pairs(&alone).into_iter().collect(),
        },
        Section {
            id: "clients",
            title: "More tills on one machine".to_owned(),
            lead: "Clients that commit at the same time can share one write and one flush, if the system supports that.".to_owned(),
            figures: clients(&durable).into_iter().collect(),
        },
        Section {
            id: "latency",
            title: "Latency of a durable insert".to_owned(),
            lead: "With one client, and for each system the setting with the shortest median. The customer at the till waits for each \
                   insert."
                .to_owned(),
            figures: waits(&durable).into_iter().collect(),
        },
        Section {
            id: "device",
            title: "Work of the device".to_owned(),
            lead: "For one client: a second log costs a second write and a second flush.".to_owned(),
            figures: device("device", &alone).into_iter().collect(),
        },
        Section {
            id: "published",
            title: "Comparison with published figures".to_owned(),
            lead: "Policy 1 forces at each commit, 2 writes at each and forces once a second, 0 does neither.".to_owned(),
            figures: published(document),
        },
    ]
}

fn name(row: &Row) -> String {
    format!("{} {}", row.system, row.settings)
}

/// Compares a setting with that of one forced log of the same system.
fn compared(row: &Row, forced: &Row) -> Option<String> {
    let seconds = |r: &Row| r.pairs_s.filter(|s| *s > 0.0);
    match (row.policy, row.second_log) {
        (Some(1), Some(true)) => {
            let ratio = ratio(row, forced, seconds)?;
            Some(format!("{} one log", multiple(&ratio)))
        }
        (Some(0 | 2), _) => {
            let ratio = ratio(forced, row, seconds)?;
            Some(format!("forced takes {} this", multiple(&ratio)))
        }
        _ => None,
    }
}

fn pairs(rows: &[(String, &Row)]) -> Option<Figure> {
    let mut table = Table::new([
        "system and settings",
        "seconds",
        "commits/s",
        "99 % within",
        "with one forced log",
        "survives",
    ]);
    let forced = |row: &Row| {
        let is_it = |(_, r): &&(String, &Row)| {
            r.system == row.system && r.usual && r.policy == Some(1) && r.second_log != Some(true)
        };
        rows.iter().find(is_it).map(|(_, r)| *r)
    };
    let mut dots = Vec::new();
    for (name, row) in rows {
        let seconds = row.pairs_s?;
        table.push([
            signed(name, row),
            significant(seconds, 3),
            value(row.commits_per_s, 0),
            row.p99_us.map_or_else(|| "-".to_owned(), time),
            forced(row)
                .and_then(|one| compared(row, one))
                .unwrap_or_else(|| "-".to_owned()),
            Guarantee::of(row).words().to_owned(),
        ]);
        dots.push(Dot {
            label: format!("{name}{}", doubt(row)),
            sign: Guarantee::of(row).into(),
            value: seconds,
            high: None,
            text: time(seconds * 1e6),
        });
    }
    if dots.is_empty() {
        return None;
    }
    Some(Figure {
        id: "pairs".to_owned(),
        title: "Time for the inserts of one client".to_owned(),
        caption: format!("Colour and shape show what an acknowledged insert survives. {DOUBT}."),
        chart: Chart::Dots(Dots {
            rows: dots,
            unit: "seconds (log scale)".to_owned(),
            base: None,
        }),
        table,
    })
}

/// Returns the chart of the latencies with one client. A single system is shown with all its settings.
fn waits(durable: &[&Row]) -> Option<Figure> {
    let median = |r: &Row| r.p50_us.unwrap_or(f64::INFINITY);
    let mut alone: Vec<&Row> = durable.iter().copied().filter(|r| r.clients == 1).collect();
    alone.sort_by(|a, b| median(a).total_cmp(&median(b)));
    let systems = words(&alone, |r| &r.system);
    let is_shown = |row: &&&Row| {
        let best = alone.iter().find(|r| r.system == row.system);
        systems.len() == 1 || best.is_some_and(|b| b.settings == row.settings)
    };
    let named: Vec<(String, &Row)> = alone
        .iter()
        .filter(is_shown)
        .map(|r| (name(r), *r))
        .collect();
    latencies(
        "latency",
        "Latency of a durable insert by one client",
        &named,
    )
}

/// Returns the chart of the fastest durable setting of each system.
fn clients(durable: &[&Row]) -> Option<Figure> {
    let numbers = steps(durable, |r| r.clients);
    let most = numbers.last().copied()?;
    let mut best: Vec<&Row> = Vec::new();
    let mut of_most: Vec<&Row> = durable
        .iter()
        .copied()
        .filter(|r| r.clients == most)
        .collect();
    let rate = |r: &Row| r.commits_per_s.unwrap_or(0.0);
    of_most.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    for row in of_most {
        if !best.iter().any(|b| b.system == row.system) {
            best.push(row);
        }
    }
    best.truncate(MOST);
    let series = best.iter().map(|of| {
        let wanted = name(of);
        let at = |n: &u64| {
            durable
                .iter()
                .find(|r| r.clients == *n && name(r) == wanted)
        };
        let points = numbers
            .iter()
            .map(|n| at(n)?.commits_per_s.map(ChartPoint::of))
            .collect();
        (wanted.clone(), points, false)
    });
    Against {
        id: "clients".to_owned(),
        title: "Durable commits per second by clients".to_owned(),
        caption: format!(
            "For each system, the durable setting that is fastest with {}.",
            count(most, "client")
        ),
        steps: numbers.iter().map(u64::to_string).collect(),
        across: "clients".to_owned(),
        unit: "commits/s".to_owned(),
        is_log: true,
        series: series.collect(),
    }
    .figure()
}
