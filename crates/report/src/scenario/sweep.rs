//! Figures of `journal --sweep`: writes in flight by size of a chunk.

use super::parts::{Against, spread, steps};
use crate::chart::{Chart, ChartPoint, Heat, MOST};
use crate::figure::{Figure, Section, Table};
use crate::sign::{Guarantee, doubt};
use logforce_measure::{Document, Quantity, Row};
use logforce_terminal::numbers::bytes;

/// A method, and the mechanism that keeps its writes in flight.
struct Way<'a> {
    method: &'a str,
    queue: &'a str,
    /// Row of the report's `methods`, which has the guarantee.
    worth: Option<&'a Row>,
}

impl Way<'_> {
    fn name(&self) -> String {
        let by = if self.queue == "io_uring" {
            ", io_uring"
        } else {
            ""
        };
        format!("{}{by}{}", self.method, self.worth.map_or("", doubt))
    }

    fn id(&self) -> String {
        let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
        format!("{}-{}", self.method, self.queue)
            .chars()
            .map(plain)
            .collect()
    }

    fn is_of(&self, row: &Row) -> bool {
        row.method.as_str() == self.method && row.queue.as_str() == self.queue
    }

    fn is_safe(&self) -> bool {
        self.worth
            .is_some_and(|w| Guarantee::of(w) == Guarantee::PowerLoss && doubt(w) != " !")
    }
}

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let methods = &document.methods;
    let mut ways: Vec<Way<'_>> = Vec::new();
    for row in &rows {
        if !ways.iter().any(|w| w.is_of(row)) {
            let (method, queue) = (row.method.as_str(), row.queue.as_str());
            let is_it = |m: &&Row| m.method.as_str() == method && m.queue.as_str() == queue;
            let worth = methods.iter().find(is_it);
            ways.push(Way {
                method,
                queue,
                worth,
            });
        }
    }
    // Safe methods first, because users choose among these.
    ways.sort_by_key(|w| !w.is_safe());
    let knees = &document.knees;
    let maps = ways.iter().filter_map(|w| heat(&rows, w, knees)).collect();
    let usual = document.usual_chunk_bytes;
    let safe: Vec<&Way<'_>> = ways.iter().filter(|w| w.is_safe()).take(MOST).collect();
    let mut lines: Vec<Figure> = by_depth(&rows, &safe, usual).into_iter().collect();
    lines.extend(by_chunk(&rows, &safe));
    let waits = waits(&rows, &safe, usual);
    vec![
        Section {
            id: "maps",
            title: "Writes in flight by size".to_owned(),
            lead: "The stronger the colour, the more chunks a second are durable (or only written, if the method promises less). The outlined cell of \
                   a row is its knee: the smallest number of writes in flight that is as good as the best. Beyond it writes only wait longer."
                .to_owned(),
            figures: maps,
        },
        Section {
            id: "lines",
            title: "The safe methods side by side".to_owned(),
            lead: "If a method needs a barrier, N in flight are N writes and one barrier for all of them: a group commit.".to_owned(),
            figures: lines,
        },
        Section {
            id: "latency",
            title: "Latency with more writes in flight".to_owned(),
            lead: "Beyond the knee the rate no longer grows, and each write, or group, only waits longer.".to_owned(),
            figures: waits,
        },
    ]
}

fn heat(rows: &[&Row], way: &Way<'_>, knees: &[Row]) -> Option<Figure> {
    let of: Vec<&Row> = rows.iter().copied().filter(|r| way.is_of(r)).collect();
    let (chunks, depths) = (
        steps(&of, |r| r.chunk_bytes),
        steps(&of, |r| r.depth.unwrap_or(0)),
    );
    if chunks.is_empty() {
        return None;
    }
    let mut table = Table::new(["chunks/s"]);
    table
        .heads
        .extend(depths.iter().map(|d| format!("{d} in flight")));
    let mut outlined = Vec::new();
    let grid = chunks.iter().map(|chunk| {
        let at = |depth: &u64| {
            of.iter()
                .find(|r| r.chunk_bytes == *chunk && r.depth.unwrap_or(0) == *depth)
        };
        let cells: Vec<Option<f64>> = depths.iter().map(|d| at(d)?.chunks_per_s).collect();
        let is_it = |k: &&Row| way.is_of(k) && k.chunk_bytes == *chunk;
        let knee = knees.iter().find(is_it).map(|k| k.depth.unwrap_or(0));
        let place = depths.iter().position(|d| Some(*d) == knee);
        outlined.push(place);
        let words = cells.iter().enumerate().map(|(n, cell)| {
            let mark = if Some(n) == place { " (knee)" } else { "" };
            format!("{}{mark}", super::parts::value(*cell, 0))
        });
        table.push([bytes(*chunk)].into_iter().chain(words));
        (bytes(*chunk), cells)
    });
    let grid = grid.collect();
    let worth = way.worth.map_or("", |w| Guarantee::of(w).words());
    let meaning = way.worth.map_or("", |w| w.in_flight.as_str());
    Some(Figure {
        id: way.id(),
        title: format!("{}: {worth}", way.name()),
        caption: format!("In flight: {meaning}."),
        chart: Chart::Heat(Heat {
            columns: depths.iter().map(u64::to_string).collect(),
            across: "writes in flight".to_owned(),
            rows: grid,
            down: "chunk".to_owned(),
            unit: "chunks/s".to_owned(),
            outlined,
        }),
        table,
    })
}

fn by_depth(rows: &[&Row], ways: &[&Way<'_>], chunk: u64) -> Option<Figure> {
    let depths = steps(rows, |r| r.depth.unwrap_or(0));
    let series = ways.iter().map(|way| {
        let at = |depth: &u64| {
            let is_it = |r: &&&Row| {
                way.is_of(r) && r.chunk_bytes == chunk && r.depth.unwrap_or(0) == *depth
            };
            rows.iter().find(is_it)
        };
        let points = depths
            .iter()
            .map(|d| spread(at(d)?, Quantity::ChunksPerS))
            .collect();
        (way.name(), points, false)
    });
    Against {
        id: "by-depth".to_owned(),
        title: format!("Durable chunks of {} per second", bytes(chunk)),
        caption: "Median of the slices; the line at a mark spans 8 of 10.".to_owned(),
        steps: depths.iter().map(u64::to_string).collect(),
        across: "in flight".to_owned(),
        unit: "chunks/s".to_owned(),
        is_log: true,
        series: series.collect(),
    }
    .figure()
}

/// Returns the charts of the median and of the 99th percentile of the latency.
fn waits(rows: &[&Row], ways: &[&Way<'_>], chunk: u64) -> Vec<Figure> {
    type Of = fn(&Row) -> Option<f64>;
    let parts: [(&str, Of, &str); 2] =
        [("p50", |r| r.p50_us, "Half"), ("p99", |r| r.p99_us, "99 %")];
    let figures = parts.into_iter().filter_map(|(field, of, part)| {
        let depths = steps(rows, |r| r.depth.unwrap_or(0));
        let series = ways.iter().map(|way| {
            let at = |depth: &u64| {
                let is_it = |r: &&&Row| {
                    way.is_of(r) && r.chunk_bytes == chunk && r.depth.unwrap_or(0) == *depth
                };
                of(rows.iter().find(is_it)?).map(ChartPoint::of)
            };
            (way.name(), depths.iter().map(at).collect(), false)
        });
        Against {
            id: format!("latency-{field}"),
            title: format!(
                "{part} of the writes, or groups, of {} took no longer",
                bytes(chunk)
            ),
            caption:
                "If a method needs a barrier, the time is that of a whole group with its barrier."
                    .to_owned(),
            steps: depths.iter().map(u64::to_string).collect(),
            across: "in flight".to_owned(),
            unit: "µs".to_owned(),
            is_log: true,
            series: series.collect(),
        }
        .figure()
    });
    figures.collect()
}

fn by_chunk(rows: &[&Row], ways: &[&Way<'_>]) -> Option<Figure> {
    let chunks = steps(rows, |r| r.chunk_bytes);
    let series = ways.iter().map(|way| {
        let best = |chunk: &u64| {
            let of = rows
                .iter()
                .filter(|r| way.is_of(r) && r.chunk_bytes == *chunk);
            of.filter_map(|r| r.mb_per_s).max_by(f64::total_cmp)
        };
        let points = chunks.iter().map(|c| best(c).map(ChartPoint::of)).collect();
        (way.name(), points, false)
    });
    Against {
        id: "by-chunk".to_owned(),
        title: "Durable bytes per second at the best depth".to_owned(),
        caption: "Each way at the depth that is best for chunks of that size.".to_owned(),
        steps: chunks.iter().map(|c| bytes(*c)).collect(),
        across: "chunks".to_owned(),
        unit: "MB/s".to_owned(),
        is_log: true,
        series: series.collect(),
    }
    .figure()
}
