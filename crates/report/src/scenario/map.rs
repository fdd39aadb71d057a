//! Figures of `map`: small commits to a large file.

use super::latency::latencies;
use super::parts::{Against, device, multiple, ratio, spread, steps, value, words};
use crate::chart::ChartPoint;
use crate::figure::{Figure, Section};
use logforce_measure::map::{MapMethod, P4};
use logforce_measure::run::Ratio;
use logforce_measure::{Document, Quantity, Row};
use logforce_terminal::numbers::bytes;

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let largest = steps(&rows, |r| r.file_bytes).last().copied();
    let of_largest = rows.iter().filter(|r| Some(r.file_bytes) == largest);
    let mut named: Vec<_> = of_largest
        .map(|r| (r.method.as_str().to_owned(), *r))
        .collect();
    // Our page files first, because not all methods may fit into one chart.
    named.sort_by_key(|(method, _)| !is_ours(method));
    let mut times = Vec::new();
    times.extend(by_size(
        &rows,
        "time",
        "Time of a commit by the size of the file",
        "ms",
        |r| spread(r, Quantity::MsPerCommit),
        &[
            ("growth", &|r, least, _| Some(multiple(&time(r, least)?))),
            ("to the mapping", &|r, _, all| {
                Some(multiple(&time(r, all)?))
            }),
        ],
    ));
    times.extend(latencies(
        "latency",
        "Latency of a commit in the largest file",
        &named,
    ));
    let system = by_size(
        &rows,
        "system",
        "Processor time of the system for a commit",
        "µs",
        |r| r.system_us_per_commit.map(ChartPoint::of),
        &[
            ("growth", &|r, least, _| {
                factor(system_us(r)? / system_us(least)?)
            }),
            ("to the mapping", &|r, _, all| {
                factor(system_us(r)? / system_us(all)?)
            }),
            ("of the time", &|r, _, _| {
                let share = system_us(r)? / 10.0 / r.ms_per_commit?;
                Some(format!("{} %", value(Some(share), 1)))
            }),
        ],
    );
    vec![
        Section {
            id: "time",
            title: "Time of a commit, and how it grows".to_owned(),
            lead: P4.sentence(),
            figures: times,
        },
        Section {
            id: "system",
            title: "Processor time of the system".to_owned(),
            lead: "Processor time that a commit takes from all others on the machine. It should not grow with the file.".to_owned(),
            figures: system.into_iter().collect(),
        },
        Section {
            id: "device",
            title: "Work of the device".to_owned(),
            lead: "In the largest file.".to_owned(),
            figures: device("device", &named).into_iter().collect(),
        },
    ]
}

/// Additional column of the largest file: its head, and its cell from the row of the largest file, the row of
/// the smallest one, and the row that syncs the whole mapping of the largest one.
type More<'a> = (&'a str, &'a dyn Fn(&Row, &Row, &Row) -> Option<String>);

fn time(of: &Row, to: &Row) -> Option<Ratio> {
    ratio(of, to, |r| r.ms_per_commit)
}

fn system_us(row: &Row) -> Option<f64> {
    row.system_us_per_commit.filter(|us| *us > 0.0)
}

fn factor(ratio: f64) -> Option<String> {
    Some(format!("{} ×", value(Some(ratio), 2)))
}

fn is_ours(method: &str) -> bool {
    matches!(method, "copy-on-write" | "logged")
}

/// Returns two charts, because one chart of all methods could not be read.
fn by_size(
    rows: &[&Row],
    id: &str,
    title: &str,
    unit: &str,
    of: impl Fn(&Row) -> Option<ChartPoint>,
    more: &[More],
) -> Vec<Figure> {
    let sizes = steps(rows, |r| r.file_bytes);
    let methods = words(rows, |r| r.method.as_str());
    let theirs: Vec<&str> = methods.iter().filter(|m| !is_ours(m)).copied().collect();
    let ours: Vec<&str> = methods.iter().filter(|m| is_ours(m)).copied().collect();
    let compared = [theirs.first(), theirs.get(2)]
        .into_iter()
        .flatten()
        .chain(&ours);
    let groups = [
        (
            format!("{id}-plain"),
            format!("{title}: mapped and written"),
            theirs.clone(),
        ),
        (
            format!("{id}-ours"),
            format!("{title}: compared with page files"),
            compared.copied().collect(),
        ),
    ];
    let row = |method: &str, bytes: Option<&u64>| {
        let is_it = |r: &&&Row| Some(&r.file_bytes) == bytes && r.method.as_str() == method;
        rows.iter().find(is_it).copied()
    };
    let figures = groups.into_iter().filter_map(|(id, title, methods)| {
        let series = methods.iter().map(|method| {
            let at = |n: &u64| row(method, Some(n));
            let points = sizes.iter().map(|n| of(at(n)?)).collect();
            ((*method).to_owned(), points, false)
        });
        let mut figure = Against {
            id,
            title,
            caption: "Each mark is a size of the file; the line at it spans 8 of 10 slices, if they were measured.".to_owned(),
            steps: sizes.iter().map(|n| bytes(*n)).collect(),
            across: "file".to_owned(),
            unit: unit.to_owned(),
            is_log: true,
            series: series.collect(),
        }
        .figure()?;
        for (head, cell) in more {
            figure.table.heads.push(format!("{} file: {head}", bytes(*sizes.last()?)));
            for line in &mut figure.table.rows {
                let method = line.first().map_or("", String::as_str);
                let largest = row(method, sizes.last());
                let (least, all) = (row(method, sizes.first()), row(MapMethod::MsyncAll.name(), sizes.last()));
                let text = largest.zip(least).zip(all).and_then(|((r, l), a)| cell(r, l, a));
                line.push(text.unwrap_or_else(|| "-".to_owned()));
            }
        }
        Some(figure)
    });
    figures.collect()
}
