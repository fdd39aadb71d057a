//! Figures of `journal`: one commit per chunk, by each method and in each file state; then commits through
//! the log.

use super::latency::latencies;
use super::parts::{Against, device, multiple, signed, steps, value, words};
use crate::chart::{Bars, Chart, ChartPoint, Dot, Dots, Heat};
use crate::figure::{Figure, Section, Table};
use crate::sign::{DOUBT, Guarantee, doubt};
use crate::time;
use logforce_device::FileState;
use logforce_measure::journal::conclusion::{Filled, filled};
use logforce_measure::journal::published::Table as Published;
use logforce_measure::{Document, Row};
use logforce_terminal::numbers::{bytes, count};

pub fn sections(document: &Document) -> Vec<Section> {
    let rows: Vec<&Row> = document.measured().collect();
    let raw: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|r| r.subject.as_str() == "raw")
        .collect();
    let log: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|r| r.subject.as_str() != "raw")
        .collect();
    let best = best_of_each_method(&raw);
    let chunk = log
        .iter()
        .filter(|r| r.threads == 1)
        .max_by_key(|r| r.bytes);
    let mut compared: Vec<(String, &Row)> = best.iter().map(|r| (name(r), *r)).collect();
    compared.extend(chunk.map(|r| (name(r), *r)));
    compared.sort_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
    let safe: Vec<_> = compared
        .iter()
        .filter(|(_, r)| Guarantee::of(r) == Guarantee::PowerLoss)
        .cloned()
        .collect();
    vec![
        Section {
            id: "cost",
            title: "Cost and guarantee of each method".to_owned(),
            lead: "Each method in the file state that suits it best. Compare methods only if they survive the same failures."
                .to_owned(),
            figures: costs(&compared).into_iter().collect(),
        },
        Section {
            id: "state",
            title: "State of the file before the writes".to_owned(),
            lead: "The same calls on a file that was reserved and never written (fallocated), filled with zeros (zeroed), written before \
                   (recycled), or that grows. A write to blocks that were never written has to change the filesystem's metadata \
                   durably as well."
                .to_owned(),
            figures: states(&raw, &filled(&raw, &document.recommended)).into_iter().collect(),
        },
        Section {
            id: "latency",
            title: "Latency of a commit".to_owned(),
            lead: "The methods that survive a loss of power, the fastest first.".to_owned(),
            figures: latencies("latency", "Latency of a durable commit", &safe).into_iter().collect(),
        },
        Section {
            id: "log",
            title: "Commits through the log, by number of threads".to_owned(),
            lead: "Threads that commit at the same time share one write and one force.".to_owned(),
            figures: committers(&log).into_iter().collect(),
        },
        Section {
            id: "device",
            title: "Work of the device".to_owned(),
            lead: "Writes and cache flushes wear a disk, and commits wait for them.".to_owned(),
            figures: device("device", &compared).into_iter().collect(),
        },
        Section {
            id: "published",
            title: "Comparison with published figures".to_owned(),
            lead: "As multiples of one method on the same machine, because absolute times of different machines cannot be compared.".to_owned(),
            figures: published(document, &raw).into_iter().collect(),
        },
    ]
}

fn cost(row: &Row) -> f64 {
    row.ms_per_commit.unwrap_or(f64::INFINITY)
}

fn name(row: &Row) -> String {
    match row.subject.as_str() {
        "raw" => format!("{}, {}", row.method.as_str(), row.file_state.as_str()),
        _ => format!("the log, {}, {}", row.method.as_str(), bytes(row.bytes)),
    }
}

/// Returns the fastest row of each method on files that were written before, as those of a journal should be.
fn best_of_each_method<'a>(raw: &[&'a Row]) -> Vec<&'a Row> {
    let written: Vec<&str> = FileState::ALL
        .iter()
        .filter(|s| s.is_written())
        .map(|s| s.name())
        .collect();
    let best = words(raw, |r| r.method.as_str())
        .into_iter()
        .filter_map(|method| {
            let of = raw.iter().filter(|r| r.method.as_str() == method);
            // Falls back to other states if no written file was measured.
            of.min_by(|a, b| {
                let rank = |r: &Row| (!written.contains(&r.file_state.as_str()), cost(r));
                let ((a, x), (b, y)) = (rank(a), rank(b));
                a.cmp(&b).then(x.total_cmp(&y))
            })
        });
    best.copied().collect()
}

fn costs(rows: &[(String, &Row)]) -> Option<Figure> {
    let mut table = Table::new([
        "method",
        "ms a commit",
        "to the fastest safe",
        "99 % within",
        "commits/s",
        "survives",
    ]);
    let safe = rows
        .iter()
        .filter(|(_, r)| Guarantee::of(r) == Guarantee::PowerLoss && doubt(r) != " !");
    let fastest = safe.map(|(_, r)| cost(r)).min_by(f64::total_cmp);
    let mut dots = Vec::new();
    for (name, row) in rows {
        let ms = row.ms_per_commit?;
        let ratio = fastest.map(|f| format!("{} ×", value(Some(ms / f), 2)));
        let text = time(ms * 1e3);
        table.push([
            signed(name, row),
            value(Some(ms), 4),
            ratio.unwrap_or_else(|| "-".to_owned()),
            row.p99_us.map_or_else(|| "-".to_owned(), time),
            value(row.commits_per_s, 0),
            Guarantee::of(row).words().to_owned(),
        ]);
        dots.push(Dot {
            label: format!("{name}{}", doubt(row)),
            sign: Guarantee::of(row).into(),
            value: ms * 1e3,
            high: row.p99_us.filter(|p| *p > ms * 1e3),
            text,
        });
    }
    if dots.is_empty() {
        return None;
    }
    Some(Figure {
        id: "cost".to_owned(),
        title: "Time of a commit by method".to_owned(),
        caption: format!(
            "The mark is the mean of all commits; the line ends at the 99th percentile. Colour and shape show what \
                          a commit survives. {DOUBT}."
        ),
        chart: Chart::Dots(Dots {
            rows: dots,
            unit: "µs a commit (log scale)".to_owned(),
            base: None,
        }),
        table,
    })
}

fn states(raw: &[&Row], filled: &[Filled]) -> Option<Figure> {
    let states = words(raw, |r| r.file_state.as_str());
    let mut table = Table::new(["ms a commit"]);
    table.heads.extend(states.iter().map(|s| (*s).to_owned()));
    let of_conclusion = ["filled beforehand", "to the recommended"];
    table.heads.extend(of_conclusion.map(str::to_owned));
    let rows = words(raw, |r| r.method.as_str()).into_iter().map(|method| {
        let at = |state: &&str| {
            raw.iter()
                .find(|r| r.method.as_str() == method && r.file_state.as_str() == *state)
        };
        let cells: Vec<_> = states
            .iter()
            .map(|s| at(s).and_then(|r| r.ms_per_commit))
            .collect();
        let words = cells.iter().map(|c| value(*c, 4));
        let filled = filled.iter().find(|f| f.method.name() == method);
        let ratio = filled.and_then(|f| f.ratio);
        let more = [
            value(filled.map(|f| f.ms), 4),
            ratio.map_or_else(|| "-".to_owned(), |r| multiple(&r)),
        ];
        table.push([method.to_owned()].into_iter().chain(words).chain(more));
        let best = cells
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        (
            method.to_owned(),
            cells.into_iter().map(|c| c.map(|ms| ms / best)).collect(),
        )
    });
    let rows: Vec<_> = rows.collect();
    if states.len() < 2 || rows.is_empty() {
        return None;
    }
    Some(Figure {
        id: "state".to_owned(),
        title: "Time of a commit by method and file state".to_owned(),
        caption: "As a multiple of the method's fastest state. The stronger the colour, the longer a commit takes. The table has milliseconds, and what the conclusion compares: the mean over the files that were filled beforehand, and the interval of the ratio to the recommended method.".to_owned(),
        chart: Chart::Heat(Heat {
            columns: states.iter().map(|s| (*s).to_owned()).collect(),
            across: "file state".to_owned(),
            rows,
            down: "method".to_owned(),
            unit: "× its fastest".to_owned(),
            outlined: Vec::new(),
        }),
        table,
    })
}

fn committers(log: &[&Row]) -> Option<Figure> {
    let small = log.iter().map(|r| r.bytes).min()?;
    let of_small: Vec<&Row> = log.iter().copied().filter(|r| r.bytes == small).collect();
    let threads = steps(&of_small, |r| r.threads);
    let series = words(&of_small, |r| r.method.as_str())
        .into_iter()
        .map(|method| {
            let at = |n: &u64| {
                of_small
                    .iter()
                    .find(|r| r.threads == *n && r.method.as_str() == method)
            };
            let points = threads
                .iter()
                .map(|n| at(n)?.commits_per_s.map(ChartPoint::of))
                .collect();
            (method.to_owned(), points, false)
        });
    Against {
        id: "committers".to_owned(),
        title: format!("Durable commits per second, records of {}", bytes(small)),
        caption: format!(
            "With {} each record has its own write; with more threads several records share a write.",
            count(1_u64, "thread")
        ),
        steps: threads.iter().map(u64::to_string).collect(),
        across: "threads".to_owned(),
        unit: "commits/s".to_owned(),
        is_log: true,
        series: series.collect(),
    }
    .figure()
}

/// Compares our rows on fallocated files with the published ones, which used pre-sized files that were never
/// written.
fn published(document: &Document, raw: &[&Row]) -> Option<Figure> {
    let theirs = Published::of(document.machine.platform()?)?;
    let of = |method: &str| {
        let fallocated = raw.iter().find(|r| {
            r.method.as_str() == method && r.file_state.as_str() == FileState::Fallocated.name()
        });
        fallocated?.ms_per_commit
    };
    let base = of(theirs.base.method.name())?;
    let mut table = Table::new(["method", "here", "published, system disk", "published, SSD"]);
    let rows = theirs.rows.iter().map(|row| {
        let (disk, ssd) = theirs.ratios(row);
        let ours = of(row.method.name()).map(|ms| ms / base);
        table.push([
            row.name.to_owned(),
            value(ours, 2),
            value(Some(disk), 2),
            value(Some(ssd), 2),
        ]);
        (row.name.to_owned(), vec![ours, Some(disk), Some(ssd)])
    });
    let rows = rows.collect();
    Some(Figure {
        id: "published".to_owned(),
        title: format!("Time as a multiple of {}", theirs.base.name),
        caption: format!(
            "Published: {} ({}). Here: the same calls on a file that was reserved but not written, like the published ones.",
            theirs.source, theirs.machine
        ),
        chart: Chart::Bars(Bars {
            series: ["here", "published, system disk", "published, SSD"]
                .map(str::to_owned)
                .to_vec(),
            rows,
            unit: format!("× {}", theirs.base.name),
        }),
        table,
    })
}
