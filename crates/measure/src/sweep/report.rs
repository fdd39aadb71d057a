//! What was measured, as data. Field names are kept compatible; see `docs/bench-json.md`.

use super::Outcome;
use super::knee::{Finding, Point, knee};
use super::way::{Queue, Unit, Way};
use crate::counting::CallCounts;
use crate::head::Head;
use crate::notes;
use crate::report::{as_name, as_text};
use crate::schedule::Measured;
use crate::stats::{spread, standard_error};
use crate::survives::survives;
use logforce_device::{Assessment, Guarantee, Method, Verdict};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-sweep";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What it begins with: [`SCHEMA`], [`VERSION`].
    #[serde(flatten)]
    pub head: Head,
    /// What follows, in sentences.
    pub conclusion: String,
    /// The method that the conclusion speaks of; `None` if it speaks of none.
    #[serde(serialize_with = "as_name")]
    pub recommended: Option<Method>,
    /// What the reader should know, in sentences.
    pub notes: Vec<String>,
    /// Chunks by which methods are held against each other, bytes.
    pub usual_chunk_bytes: u64,
    /// Each way to have writes in flight, and what it is worth.
    pub methods: Vec<MethodRow>,
    /// The cells.
    pub rows: Vec<Row>,
    /// Of each way and chunk that has a figure.
    pub knees: Vec<KneeRow>,
}

impl Report {
    /// A report of what was measured and of what follows.
    pub fn new(head: Head, outcome: Outcome, conclusion: String) -> Report {
        let conclusion = head.machine.concluded(conclusion, outcome.interrupted);
        let mut notes = outcome.notes;
        notes.extend(guarantees(&outcome.methods));
        let flushes_counted = outcome
            .rows
            .iter()
            .any(|r| r.device_flushes_per_chunk.is_some());
        notes.extend(notes::counters(outcome.neighbours, flushes_counted));
        notes.extend(missing(&outcome.rows));
        Report {
            head,
            conclusion,
            recommended: outcome.recommended.method,
            notes,
            usual_chunk_bytes: outcome.usual_chunk,
            methods: outcome.methods,
            rows: outcome.rows,
            knees: outcome.knees,
        }
    }
}

/// A way to have writes in flight, and what it is worth.
#[derive(Debug, Clone, Serialize)]
pub struct MethodRow {
    /// How a force is done.
    #[serde(serialize_with = "as_text")]
    pub method: Method,
    /// Who keeps writes in flight.
    pub queue: Queue,
    /// What *in flight* means.
    pub in_flight: &'static str,
    /// What is durable at a time, and what latencies are of: `write` or `group`.
    pub unit: &'static str,
    /// What a write survives, or a group, once it has ended.
    #[serde(serialize_with = "as_name")]
    pub guarantee: Option<Guarantee>,
    /// How far that is to be believed.
    #[serde(serialize_with = "as_name")]
    pub verdict: Option<Verdict>,
    /// Why.
    pub evidence: Option<String>,
    /// Why it cannot be had here.
    pub error: Option<String>,
}

impl MethodRow {
    /// Before anything was measured.
    pub fn new(way: Way, assessment: Option<&Assessment>, error: Option<String>) -> MethodRow {
        MethodRow {
            method: way.method,
            queue: way.queue,
            in_flight: way.describe(),
            unit: way.unit().name(),
            guarantee: assessment.map(|a| a.guarantee),
            verdict: assessment.map(|a| a.verdict),
            evidence: assessment.map(|a| a.evidence.clone()),
            error,
        }
    }

    /// Which it is.
    pub fn way(&self) -> Way {
        Way {
            method: self.method,
            queue: self.queue,
        }
    }

    /// Survives loss of power, and nothing speaks against it.
    pub fn is_safe(&self) -> bool {
        is_safe(self.guarantee, self.verdict)
    }

    /// What it survives, with a mark where that is not simply declared.
    pub fn survives(&self) -> String {
        survives(self.guarantee, self.verdict)
    }
}

fn is_safe(guarantee: Option<Guarantee>, verdict: Option<Verdict>) -> bool {
    guarantee == Some(Guarantee::PowerLoss)
        && matches!(
            verdict,
            Some(Verdict::Proven | Verdict::Declared | Verdict::Unknown)
        )
}

/// One cell. All numbers measured are `None` together, and only where `error` says why.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// How a force is done.
    #[serde(serialize_with = "as_text")]
    pub method: Method,
    /// Who keeps writes in flight.
    pub queue: Queue,
    /// Bytes of a chunk, which is one write.
    pub chunk_bytes: u64,
    /// Writes in flight, or in a group.
    pub depth: u32,
    /// Slices.
    pub slices: u64,
    /// Chunks written in all of them.
    pub chunks: u64,
    /// Median of the slices.
    pub chunks_per_s: Option<f64>,
    /// A tenth of the slices lies below.
    pub chunks_per_s_p10: Option<f64>,
    /// A tenth of the slices lies above.
    pub chunks_per_s_p90: Option<f64>,
    /// Millions of bytes a second, by the median.
    pub mb_per_s: Option<f64>,
    /// Median latency of a write or a group, microseconds.
    pub p50_us: Option<f64>,
    /// 99 of 100 took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// The longest, microseconds.
    pub max_us: Option<f64>,
    /// Writes handed to the system, by chunks.
    pub writes_per_chunk: Option<f64>,
    /// Those of them that are durable by themselves.
    pub through_per_chunk: Option<f64>,
    /// Barriers, by chunks.
    pub barriers_per_chunk: Option<f64>,
    /// Writes that the block device completed, by chunks; neighbours' count too.
    pub device_writes_per_chunk: Option<f64>,
    /// Cache flushes likewise.
    pub device_flushes_per_chunk: Option<f64>,
    /// What a chunk survives once its write, or its group, has ended.
    #[serde(serialize_with = "as_name")]
    pub guarantee: Option<Guarantee>,
    /// How far that is to be believed.
    #[serde(serialize_with = "as_name")]
    pub verdict: Option<Verdict>,
    /// Why there are no numbers.
    pub error: Option<String>,
    /// Standard error of the rate: of the mean, which is no smaller for one slice far out than the
    /// median's.
    #[serde(skip)]
    pub rate_error: f64,
}

impl Row {
    /// Without numbers.
    pub fn failed(way: Way, error: Option<String>) -> Row {
        Row {
            method: way.method,
            queue: way.queue,
            chunk_bytes: 0,
            depth: 0,
            slices: 0,
            chunks: 0,
            chunks_per_s: None,
            chunks_per_s_p10: None,
            chunks_per_s_p90: None,
            mb_per_s: None,
            p50_us: None,
            p99_us: None,
            max_us: None,
            writes_per_chunk: None,
            through_per_chunk: None,
            barriers_per_chunk: None,
            device_writes_per_chunk: None,
            device_flushes_per_chunk: None,
            guarantee: None,
            verdict: None,
            error: Some(error.unwrap_or_else(|| "not measured".to_owned())),
            rate_error: f64::INFINITY,
        }
    }

    /// From all slices of a cell, with what the system was handed in them.
    pub(super) fn new(
        way: Way,
        measured: &Measured,
        counts: CallCounts,
        method: &MethodRow,
    ) -> Row {
        let empty = Row::failed(way, measured.error.clone());
        let key = &measured.key;
        let recorder = &measured.recorder;
        let per_unit = match way.unit() {
            Unit::Write => 1,
            Unit::Group => u64::from(key.threads),
        };
        let chunks = recorder.commits() * per_unit;
        if measured.error.is_some() || chunks == 0 {
            return empty;
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
        let latencies = recorder.latencies();
        let device = recorder.device();
        Row {
            slices: rates.len() as u64,
            chunks,
            chunks_per_s: rate.map(|s| s.median),
            chunks_per_s_p10: rate.map(|s| s.p10),
            chunks_per_s_p90: rate.map(|s| s.p90),
            mb_per_s: rate.map(|s| s.median * key.bytes as f64 / 1e6),
            p50_us: Some(latencies.quantile_us(0.5)),
            p99_us: Some(latencies.quantile_us(0.99)),
            max_us: Some(latencies.max_us()),
            writes_per_chunk: by(counts.writes),
            through_per_chunk: by(counts.through),
            barriers_per_chunk: by(counts.barriers),
            device_writes_per_chunk: device.and_then(|d| by(d.writes)),
            device_flushes_per_chunk: device.and_then(|d| d.flushes).and_then(by),
            guarantee: method.guarantee,
            verdict: method.verdict,
            error: None,
            rate_error: standard_error(&rates),
            ..empty
        }
    }

    /// Of this size and number in flight.
    pub fn of(self, chunk_bytes: u64, depth: u32) -> Row {
        Row {
            chunk_bytes,
            depth,
            ..self
        }
    }

    /// Which way it is.
    pub fn way(&self) -> Way {
        Way {
            method: self.method,
            queue: self.queue,
        }
    }

    /// What the knee is looked for in.
    pub fn point(&self) -> Option<Point> {
        Some(Point {
            depth: self.depth,
            rate: self.chunks_per_s?,
            error: self.rate_error,
        })
    }

    /// Survives loss of power, and nothing speaks against it.
    pub fn is_safe(&self) -> bool {
        is_safe(self.guarantee, self.verdict)
    }
}

/// Up to which depth more writes in flight pay, for one way and chunk.
#[derive(Debug, Clone, Serialize)]
pub struct KneeRow {
    /// How a force is done.
    #[serde(serialize_with = "as_text")]
    pub method: Method,
    /// Who keeps writes in flight.
    pub queue: Queue,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// What the depths come to.
    pub finding: Finding,
    /// The knee: the smallest depth that is as good as the best.
    pub depth: Option<u32>,
    /// Chunks a second there.
    pub chunks_per_s: Option<f64>,
    /// That as a multiple of the smallest depth's.
    pub gain: Option<f64>,
    /// The depth with the highest rate.
    pub best_depth: Option<u32>,
    /// Chunks a second there.
    pub best_chunks_per_s: Option<f64>,
}

impl KneeRow {
    /// Of rows whose depths stand together.
    pub fn all(rows: &[Row]) -> Vec<KneeRow> {
        let together = |a: &Row, b: &Row| a.way() == b.way() && a.chunk_bytes == b.chunk_bytes;
        rows.chunk_by(together)
            .filter_map(|of| {
                let points: Vec<Point> = of.iter().filter_map(Row::point).collect();
                let (row, found) = (of.first()?, knee(&points));
                let gain = found.knee.zip(found.first);
                (found.finding != Finding::Nothing).then(|| KneeRow {
                    method: row.method,
                    queue: row.queue,
                    chunk_bytes: row.chunk_bytes,
                    finding: found.finding,
                    depth: found.knee.map(|p| p.depth),
                    chunks_per_s: found.knee.map(|p| p.rate),
                    gain: gain.map(|(knee, first)| knee.rate / first.rate),
                    best_depth: found.best.map(|p| p.depth),
                    best_chunks_per_s: found.best.map(|p| p.rate),
                })
            })
            .collect()
    }

    /// Which way it is.
    pub fn way(&self) -> Way {
        Way {
            method: self.method,
            queue: self.queue,
        }
    }
}

/// Why each guarantee is what it is: one sentence for each different reason.
fn guarantees(methods: &[MethodRow]) -> Vec<String> {
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
        if !reasons[at].1.contains(&row.method.name()) {
            reasons[at].1.push(row.method.name());
        }
    }
    reasons
        .into_iter()
        .map(|(reason, methods)| format!("{}: {reason}", methods.join(", ")))
        .collect()
}

/// Why cells have no numbers: one sentence for each different reason.
fn missing(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>, u64)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        let name = row.method.name();
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
            let cells = crate::numbers::count(count, "cell");
            format!("n/a: {cells} of {}: {reason}.", whose.join(", "))
        })
        .collect()
}
