//! The rows: cells, the ways to keep writes in flight, and their knees.

use super::knee::{DepthPoint, Finding, knee};
use super::submission::{Unit, Way};
use crate::result::{Kind, Quantity, Row};
use crate::run::counting::CallCounts;
use crate::run::schedule::Measured;
use crate::run::stats::{spread, standard_error};
use logforce_device::Assessment;

/// Returns the row of a way before anything was measured.
pub fn method(way: Way, worth: Option<&Assessment>, error: Option<String>) -> Row {
    let mut row = Row {
        method: way.method.into(),
        queue: way.queue.into(),
        in_flight: way.describe().into(),
        unit: way.unit().name().into(),
        fields: Kind::METHODS,
        error,
        ..Row::default()
    };
    row.set_worth(worth);
    row
}

/// Returns the row of a cell without numbers.
pub fn failed(way: Way, chunk_bytes: u64, depth: u32, error: Option<String>) -> Row {
    Row {
        method: way.method.into(),
        queue: way.queue.into(),
        chunk_bytes,
        depth: Some(depth.into()),
        slices: Some(0),
        chunks: Some(0),
        error: Some(error.unwrap_or_else(|| "not measured".to_owned())),
        rate_error: f64::INFINITY,
        ..Row::of(Kind::Sweep)
    }
}

/// Returns the row of all slices of a cell, with the calls that were made in them.
pub(super) fn cell(way: Way, measured: &Measured, counts: CallCounts, method: &Row) -> Row {
    let key = &measured.key;
    let mut row = failed(way, key.bytes, key.threads, measured.error.clone());
    let recorder = &measured.recorder;
    let per_unit = match way.unit() {
        Unit::Write => 1,
        Unit::Group => u64::from(key.threads),
    };
    let chunks = recorder.commits() * per_unit;
    if measured.error.is_some() || chunks == 0 {
        return row;
    }
    let full = recorder.slices().iter().filter(|s| s.commits > 0);
    let rates: Vec<f64> = full
        .map(|s| {
            let seconds = s.time.as_secs_f64().max(f64::MIN_POSITIVE);
            (s.commits * per_unit) as f64 / seconds
        })
        .collect();
    let rate = spread(&rates);
    let by = |n: u64| Some(n as f64 / chunks as f64);
    let device = recorder.device();
    row.error = None;
    row.slices = Some(rates.len() as u64);
    row.chunks = Some(chunks);
    row.set(Quantity::ChunksPerS, rate);
    row.mb_per_s = rate.map(|s| s.median * key.bytes as f64 / 1e6);
    row.set_latencies(recorder.latencies());
    row.writes_per_chunk = by(counts.writes);
    row.through_per_chunk = by(counts.through);
    row.barriers_per_chunk = by(counts.barriers);
    row.device_writes_per_chunk = device.and_then(|d| by(d.writes));
    row.device_flushes_per_chunk = device.and_then(|d| d.flushes).and_then(by);
    row.guarantee = method.guarantee;
    row.verdict = method.verdict;
    row.rate_error = standard_error(&rates);
    row
}

/// Returns the figures from which the knee is found; `None` without figures.
pub fn point(row: &Row) -> Option<DepthPoint> {
    Some(DepthPoint {
        depth: row.depth?,
        rate: row.chunks_per_s?,
        error: row.rate_error,
    })
}

/// Returns the knee of each way and chunk size: the depth up to which more writes in flight pay. The rows
/// of one way and chunk size must be adjacent.
pub fn knees(rows: &[Row]) -> Vec<Row> {
    let together = |a: &Row, b: &Row| {
        a.method == b.method && a.queue == b.queue && a.chunk_bytes == b.chunk_bytes
    };
    rows.chunk_by(together)
        .filter_map(|of| {
            let points: Vec<DepthPoint> = of.iter().filter_map(point).collect();
            let (row, found) = (of.first()?, knee(&points));
            let gain = found.knee.zip(found.first);
            (found.finding != Finding::Nothing).then(|| Row {
                method: row.method.clone(),
                queue: row.queue.clone(),
                chunk_bytes: row.chunk_bytes,
                finding: found.finding.into(),
                depth: found.knee.map(|p| p.depth),
                chunks_per_s: found.knee.map(|p| p.rate),
                gain: gain.map(|(knee, first)| knee.rate / first.rate),
                best_depth: found.best.map(|p| p.depth),
                best_chunks_per_s: found.best.map(|p| p.rate),
                fields: Kind::KNEES,
                ..Row::default()
            })
        })
        .collect()
}

/// Returns the reasons for the guarantees: one sentence for each different reason.
pub(super) fn guarantees(methods: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for row in methods {
        let (Some(verdict), Some(evidence)) = (row.verdict, &row.evidence) else {
            continue;
        };
        let reason = format!("{} ({verdict}): {evidence}.", row.survives());
        let at = match reasons.iter().position(|(r, _)| *r == reason) {
            Some(at) => at,
            None => {
                reasons.push((reason, Vec::new()));
                reasons.len() - 1
            }
        };
        if !reasons[at].1.contains(&row.method.as_str()) {
            reasons[at].1.push(row.method.as_str());
        }
    }
    reasons
        .into_iter()
        .map(|(reason, methods)| format!("{}: {reason}", methods.join(", ")))
        .collect()
}

/// Returns the reasons why cells have no numbers: one sentence for each different reason.
pub(super) fn missing(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>, u64)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        let name = row.method.as_str();
        match reasons.iter_mut().find(|(r, ..)| r == error) {
            Some((_, whose, count)) => {
                *count += 1;
                if !whose.contains(&name) {
                    whose.push(name);
                }
            }
            None => reasons.push((error, vec![name], 1)),
        }
    }
    reasons
        .into_iter()
        .map(|(reason, whose, count)| {
            let cells = logforce_terminal::numbers::count(count, "cell");
            format!("n/a: {cells} of {}: {reason}.", whose.join(", "))
        })
        .collect()
}
