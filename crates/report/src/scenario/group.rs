//! Figures of `group`: commits to one log by several threads.

use super::latency::latencies;
use super::parts::{Against, spread, steps};
use crate::chart::ChartPoint;
use crate::figure::{Figure, Section};
use logforce_device::{Guarantee, Verdict};
use logforce_measure::{Document, Quantity, Row};
use logforce_terminal::numbers::{bytes, count};

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let method = &document.method;
    let verdict = document.verdict.map_or("", Verdict::name);
    let doubt = if verdict == "unknown" { "?" } else { "" };
    let worth = document.guarantee.map_or("", Guarantee::name);
    let worth = format!("{worth}{doubt}, {verdict}");
    let mut throughput = Vec::new();
    throughput.extend(against(
        &rows,
        "throughput",
        "Commits per second by threads",
        "commits/s",
        |r| spread(r, Quantity::CommitsPerS),
    ));
    throughput.extend(against(
        &rows,
        "carried",
        "Records per write of the log",
        "records",
        |r| r.records_per_write.map(ChartPoint::of),
    ));
    let mut waits = Vec::new();
    for size in steps(&rows, |r| r.record_bytes) {
        let of_size = rows.iter().filter(|r| r.record_bytes == size);
        let named: Vec<_> = of_size.map(|r| (count(r.threads, "thread"), *r)).collect();
        let title = format!("Latency of a commit, records of {}", bytes(size));
        waits.extend(latencies(&format!("latency-{size}"), &title, &named));
    }
    vec![
        Section {
            id: "throughput",
            title: "Throughput and committers".to_owned(),
            lead: format!(
                "By {method} ({worth}). Threads that commit at the same time share one write and one force. So more threads make \
                 more commits with the same device, until the device or the processor is saturated."
            ),
            figures: throughput,
        },
        Section {
            id: "latency",
            title: "Latency of a commit".to_owned(),
            lead: "A commit waits for the write in flight, and then for its own.".to_owned(),
            figures: waits,
        },
    ]
}

fn against(
    rows: &[&Row],
    id: &str,
    title: &str,
    unit: &str,
    of: impl Fn(&Row) -> Option<ChartPoint>,
) -> Option<Figure> {
    let threads = steps(rows, |r| r.threads);
    let series = steps(rows, |r| r.record_bytes).into_iter().map(|size| {
        let at = |n: &u64| {
            rows.iter()
                .find(|r| r.threads == *n && r.record_bytes == size)
        };
        let points = threads.iter().map(|n| of(at(n)?)).collect();
        (format!("records of {}", bytes(size)), points, false)
    });
    Against {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: "The line at a mark spans 8 of 10 slices, if they were measured.".to_owned(),
        steps: threads.iter().map(u64::to_string).collect(),
        across: "threads".to_owned(),
        unit: unit.to_owned(),
        is_log: true,
        series: series.collect(),
    }
    .figure()
}
