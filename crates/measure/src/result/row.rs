//! The row of every scenario. Each field is defined once, under its name in JSON. [`Kind`] lists
//! the fields that a scenario writes, in their order.
//!
//! The struct is flat, like its JSON. `docs/bench-json.md` describes the fields.

use super::distribution::Distribution;
use super::guarantee_label::label;
use super::kind::{Fields, Kind};
use super::name::{Name, optional};
use crate::run::counters::Delta;
use crate::run::cpu::percent;
use crate::run::recorder::Latencies;
use crate::run::stats::Spread;
use logforce_device::{Assessment, Guarantee, Verdict};
use logforce_terminal::numbers::{bytes, count as count_of};
use serde::ser::{Error, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::time::Duration;

/// One row. If a row could not be measured, all measured numbers are `None` and `error` gives the reason.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
#[allow(missing_docs, reason = "the names are those of docs/bench-json.md")]
pub struct Row {
    /// Fields that are written, in their order.
    #[serde(skip)]
    pub fields: Fields,

    // The case that was measured.
    pub scenario: Name,
    pub subject: Name,
    pub method: Name,
    pub file_state: Name,
    pub layout: Name,
    pub way: Name,
    pub queue: Name,
    pub in_flight: Name,
    pub unit: Name,
    #[serde(deserialize_with = "text")]
    pub system: String,
    #[serde(deserialize_with = "text")]
    pub system_version: String,
    #[serde(deserialize_with = "text")]
    pub settings: String,
    #[serde(deserialize_with = "counted")]
    pub policy: Option<u64>,
    pub second_log: Option<bool>,
    #[serde(deserialize_with = "count")]
    pub threads: u64,
    #[serde(deserialize_with = "count")]
    pub clients: u64,
    #[serde(deserialize_with = "counted")]
    pub depth: Option<u64>,
    #[serde(deserialize_with = "count")]
    pub pages: u64,
    #[serde(deserialize_with = "count")]
    pub bytes: u64,
    #[serde(deserialize_with = "count")]
    pub record_bytes: u64,
    #[serde(deserialize_with = "count")]
    pub chunk_bytes: u64,
    #[serde(deserialize_with = "count")]
    pub file_bytes: u64,

    // The amount that was measured.
    #[serde(deserialize_with = "counted")]
    pub slices: Option<u64>,
    #[serde(deserialize_with = "counted")]
    pub rounds: Option<u64>,
    #[serde(deserialize_with = "counted")]
    pub commits: Option<u64>,
    #[serde(deserialize_with = "counted")]
    pub chunks: Option<u64>,
    pub seconds: Option<f64>,
    pub total_ms: Option<f64>,

    // Rates; see [`Quantity`].
    pub ms_per_commit: Option<f64>,
    pub ms_per_commit_p10: Option<f64>,
    pub ms_per_commit_p90: Option<f64>,
    pub commits_per_s: Option<f64>,
    pub commits_per_s_p10: Option<f64>,
    pub commits_per_s_p90: Option<f64>,
    pub chunks_per_s: Option<f64>,
    pub chunks_per_s_p10: Option<f64>,
    pub chunks_per_s_p90: Option<f64>,
    pub pairs_s: Option<f64>,
    pub pairs_s_p10: Option<f64>,
    pub pairs_s_p90: Option<f64>,
    pub ratio: Option<f64>,
    pub ratio_p10: Option<f64>,
    pub ratio_p90: Option<f64>,
    pub mb_per_s: Option<f64>,
    pub system_ratio: Option<f64>,

    // Latencies of all slices together, microseconds.
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
    pub max_us: Option<f64>,
    pub latencies_us: Option<Distribution>,

    // The calls that were made to the operating system.
    pub records_per_write: Option<f64>,
    pub bytes_per_write: Option<f64>,
    pub forces_per_commit: Option<f64>,
    pub file_bytes_per_commit: Option<f64>,
    pub msyncs_per_commit: Option<f64>,
    pub writes_per_commit: Option<f64>,
    pub through_per_commit: Option<f64>,
    pub barriers_per_commit: Option<f64>,
    pub writes_per_chunk: Option<f64>,
    pub through_per_chunk: Option<f64>,
    pub barriers_per_chunk: Option<f64>,
    pub system_us_per_commit: Option<f64>,
    pub user_us_per_commit: Option<f64>,
    pub cpu_wait_percent: Option<f64>,

    // The device's own counters, which include the work of other processes.
    pub device_writes_per_commit: Option<f64>,
    pub device_flushes_per_commit: Option<f64>,
    pub device_bytes_per_commit: Option<f64>,
    pub device_writes_per_chunk: Option<f64>,
    pub device_flushes_per_chunk: Option<f64>,

    // The verification, and conclusions.
    #[serde(deserialize_with = "counted")]
    pub rows_checked: Option<u64>,
    #[serde(deserialize_with = "counted")]
    pub redone: Option<u64>,
    pub finding: Name,
    pub gain: Option<f64>,
    #[serde(deserialize_with = "counted")]
    pub best_depth: Option<u64>,
    pub best_chunks_per_s: Option<f64>,

    /// Guarantee of a commit, if `verdict` holds.
    #[serde(with = "optional")]
    pub guarantee: Option<Guarantee>,
    /// Verdict on `guarantee`.
    #[serde(with = "optional")]
    pub verdict: Option<Verdict>,
    /// Evidence for the verdict.
    pub evidence: Option<String>,
    /// Reason why there are no numbers.
    pub error: Option<String>,

    /// Main quantity of the row in each slice or round. The spread of these values is the noise.
    #[serde(skip)]
    pub each: Vec<f64>,
    /// Standard error of the rate, if it is compared with others of the same run.
    #[serde(skip)]
    pub rate_error: f64,
    /// True for the row to which the ratios of one policy refer.
    #[serde(skip)]
    pub usual: bool,
    /// True if the device's counters belong to the disk of this row.
    #[serde(skip)]
    pub on_this_disk: bool,
}

/// A quantity that has a spread: a median, and two edges between which 80 % of the slices lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Milliseconds per commit.
    MsPerCommit,
    /// Commits per second.
    CommitsPerS,
    /// Chunks per second.
    ChunksPerS,
    /// Seconds that the pairs took.
    PairsS,
    /// Time divided by the time of another row.
    Ratio,
}

impl Quantity {
    /// Returns the name of the field.
    pub fn field(self) -> &'static str {
        match self {
            Quantity::MsPerCommit => "ms_per_commit",
            Quantity::CommitsPerS => "commits_per_s",
            Quantity::ChunksPerS => "chunks_per_s",
            Quantity::PairsS => "pairs_s",
            Quantity::Ratio => "ratio",
        }
    }
}

impl Row {
    /// Returns an empty row of a scenario.
    pub fn of(kind: Kind) -> Row {
        Row {
            fields: kind.row(),
            ..Row::default()
        }
    }

    /// Returns a row of a scenario that failed.
    pub fn failed(kind: Kind, error: impl ToString) -> Row {
        Row {
            error: Some(error.to_string()),
            ..Row::of(kind)
        }
    }

    /// Returns the median, the lower and the upper edge of a quantity.
    pub fn triple(&self, of: Quantity) -> [Option<f64>; 3] {
        match of {
            Quantity::MsPerCommit => [
                self.ms_per_commit,
                self.ms_per_commit_p10,
                self.ms_per_commit_p90,
            ],
            Quantity::CommitsPerS => [
                self.commits_per_s,
                self.commits_per_s_p10,
                self.commits_per_s_p90,
            ],
            Quantity::ChunksPerS => [
                self.chunks_per_s,
                self.chunks_per_s_p10,
                self.chunks_per_s_p90,
            ],
            Quantity::PairsS => [self.pairs_s, self.pairs_s_p10, self.pairs_s_p90],
            Quantity::Ratio => [self.ratio, self.ratio_p10, self.ratio_p90],
        }
    }

    /// Returns a quantity with both its edges, if all three are known.
    pub fn spread(&self, of: Quantity) -> Option<Spread> {
        let [median, p10, p90] = self.triple(of);
        Some(Spread {
            median: median?,
            p10: p10?,
            p90: p90?,
        })
    }

    /// Sets a quantity and its edges.
    pub fn set(&mut self, of: Quantity, spread: Option<Spread>) {
        let [median, low, high] = match of {
            Quantity::MsPerCommit => [
                &mut self.ms_per_commit,
                &mut self.ms_per_commit_p10,
                &mut self.ms_per_commit_p90,
            ],
            Quantity::CommitsPerS => [
                &mut self.commits_per_s,
                &mut self.commits_per_s_p10,
                &mut self.commits_per_s_p90,
            ],
            Quantity::ChunksPerS => [
                &mut self.chunks_per_s,
                &mut self.chunks_per_s_p10,
                &mut self.chunks_per_s_p90,
            ],
            Quantity::PairsS => [
                &mut self.pairs_s,
                &mut self.pairs_s_p10,
                &mut self.pairs_s_p90,
            ],
            Quantity::Ratio => [&mut self.ratio, &mut self.ratio_p10, &mut self.ratio_p90],
        };
        *median = spread.map(|s| s.median);
        *low = spread.map(|s| s.p10);
        *high = spread.map(|s| s.p90);
    }

    /// Sets the percentiles of the latencies and their distribution.
    pub fn set_latencies(&mut self, latencies: &Latencies) {
        self.p50_us = Some(latencies.quantile_us(0.5));
        self.p90_us = Some(latencies.quantile_us(0.9));
        self.p99_us = Some(latencies.quantile_us(0.99));
        self.p999_us = Some(latencies.quantile_us(0.999));
        self.max_us = Some(latencies.max_us());
        self.latencies_us = Distribution::of(latencies);
    }

    /// Sets the part of `time` for which the committing thread waited for a processor.
    pub fn set_cpu_wait(&mut self, wait: Option<Duration>, time: Duration) {
        self.cpu_wait_percent = wait.and_then(|wait| percent(wait, time));
    }

    /// Sets the device's counters, divided by the number of commits.
    pub fn set_device(&mut self, device: Option<Delta>, commits: u64) {
        let by = |n: u64| (commits > 0).then(|| n as f64 / commits as f64);
        self.device_writes_per_commit = device.and_then(|d| by(d.writes));
        self.device_flushes_per_commit = device.and_then(|d| d.flushes).and_then(by);
        self.device_bytes_per_commit = device.and_then(|d| by(d.bytes));
    }

    /// Sets the guarantee, the verdict and the evidence.
    pub fn set_worth(&mut self, worth: Option<&Assessment>) {
        self.guarantee = worth.map(|w| w.guarantee);
        self.verdict = worth.map(|w| w.verdict);
        self.evidence = worth.map(|w| w.evidence.clone());
    }

    /// Returns whether a commit survives power loss, as far as is known.
    pub fn is_safe(&self) -> bool {
        self.error.is_none()
            && self.guarantee == Some(Guarantee::PowerLoss)
            && matches!(
                self.verdict,
                Some(Verdict::Proven | Verdict::Declared | Verdict::Unknown)
            )
    }

    /// Returns the guarantee for people, with a mark if its verdict is not simply "declared".
    pub fn survives(&self) -> String {
        label(self.guarantee, self.verdict)
    }

    /// Returns the name of the row within its scenario, in words.
    pub fn name(&self, kind: Kind) -> String {
        let threads = || format!("{} thr.", self.threads);
        let text = |name: &Name| name.as_str().to_owned();
        let parts = match kind {
            Kind::Journal => vec![
                text(&self.subject),
                text(&self.method),
                text(&self.file_state),
                threads(),
                bytes(self.bytes),
            ],
            Kind::Group => vec![threads(), bytes(self.record_bytes)],
            Kind::Pages => vec![
                text(&self.layout),
                text(&self.way),
                count_of(self.pages, "page"),
            ],
            Kind::Map => vec![
                format!("file of {}", bytes(self.file_bytes)),
                text(&self.method),
            ],
            Kind::Sweep => vec![
                text(&self.method),
                text(&self.queue),
                bytes(self.chunk_bytes),
                format!("{} in flight", self.depth.unwrap_or(0)),
            ],
            Kind::Inserts => vec![
                self.system.clone(),
                self.settings.clone(),
                count_of(self.clients, "client"),
            ],
        };
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Returns all fields with their values in JSON, in the order in which they are written.
    ///
    /// # Errors
    /// The row cannot be converted to JSON, which does not happen.
    pub fn values(&self) -> Result<Map<String, Value>, serde_json::Error> {
        ordered(
            Row::serialize(self, serde_json::value::Serializer)?,
            self.fields,
        )
    }
}

/// Returns the given fields of an object, in their order; missing ones are null.
pub(super) fn ordered(all: Value, fields: Fields) -> Result<Map<String, Value>, serde_json::Error> {
    let Value::Object(mut all) = all else {
        return Err(serde_json::Error::custom("not an object"));
    };
    let kept = fields.names().map(|name| {
        let value = all.remove(name).unwrap_or_default();
        (name.to_owned(), value)
    });
    Ok(kept.collect())
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.values().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(Some(values.len()))?;
        for (name, value) in &values {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        Row::deserialize(deserializer)
    }
}

/// Reads a text; null is read as an empty text.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a whole number. Any other number is read as `None`: any program may have written the file.
fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    Ok(number.and_then(|n| n.as_u64()))
}

/// Reads a whole number; `None` is read as 0.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(counted(deserializer)?.unwrap_or(0))
}
