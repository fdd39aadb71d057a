//! The model of a report: what `--json` writes. Field names are kept compatible; see
//! `docs/bench-json.md`.

use crate::distribution::Distribution;
use crate::head::Head;
use crate::schedule::Measured;
use crate::stats::spread;
use crate::subject::SubjectKind;
use logforce_device::{FileState, Guarantee, Method, Verdict};
use serde::{Serialize, Serializer};

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-bench";
/// Value of `version`; grows only when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// One run of the command.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What it begins with: [`SCHEMA`], [`VERSION`].
    #[serde(flatten)]
    pub head: Head,
    /// Which method to use here, and why, in sentences.
    pub conclusion: String,
    /// The method that the conclusion names; `None` if it names none.
    #[serde(serialize_with = "as_name")]
    pub recommended: Option<Method>,
    /// What the reader should know, in sentences.
    pub notes: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One row. All numbers are `None` together, and only where `error` says why.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Who commits.
    pub subject: SubjectKind,
    /// How a force is done.
    #[serde(serialize_with = "as_text")]
    pub method: Method,
    /// What the blocks under the file were before.
    #[serde(serialize_with = "as_name")]
    pub file_state: Option<FileState>,
    /// Threads that commit.
    pub threads: u32,
    /// Bytes of one commit.
    pub bytes: u64,
    /// Commits done.
    pub commits: Option<u64>,
    /// Time of the commit loop alone, milliseconds.
    pub total_ms: Option<f64>,
    /// `total_ms / commits`.
    pub ms_per_commit: Option<f64>,
    /// A tenth of the slices lies below.
    pub ms_per_commit_p10: Option<f64>,
    /// A tenth of the slices lies above.
    pub ms_per_commit_p90: Option<f64>,
    /// Median latency of a commit, microseconds.
    pub p50_us: Option<f64>,
    /// 90 of 100 commits took no longer, microseconds.
    pub p90_us: Option<f64>,
    /// 99 of 100 commits took no longer, microseconds.
    pub p99_us: Option<f64>,
    /// 999 of 1000 commits took no longer, microseconds.
    pub p999_us: Option<f64>,
    /// The longest commit, microseconds.
    pub max_us: Option<f64>,
    /// How the latencies of all commits are distributed.
    pub latencies_us: Option<Distribution>,
    /// `1000 * commits / total_ms`.
    pub commits_per_s: Option<f64>,
    /// Writes that the device completed in the commit loop; neighbours' count too.
    pub device_writes_per_commit: Option<f64>,
    /// Cache flushes likewise; `None` also where the device does not count them.
    pub device_flushes_per_commit: Option<f64>,
    /// Bytes written likewise.
    pub device_bytes_per_commit: Option<f64>,
    /// Bytes that a commit takes up in its file, headers and padding included.
    pub file_bytes_per_commit: Option<f64>,
    /// What a commit survives, if `verdict` holds.
    #[serde(serialize_with = "as_name")]
    pub guarantee: Option<Guarantee>,
    /// How far `guarantee` is to be believed.
    #[serde(serialize_with = "as_name")]
    pub verdict: Option<Verdict>,
    /// Why.
    pub evidence: Option<String>,
    /// Why there are no numbers.
    pub error: Option<String>,
    /// Milliseconds per commit of each slice: their spread is the noise.
    #[serde(skip)]
    pub slices_ms: Vec<f64>,
}

impl Row {
    /// From what the schedule measured.
    pub fn new(measured: &Measured) -> Row {
        let key = &measured.key;
        let mut row = Row {
            scenario: key.scenario,
            subject: key.subject,
            method: key.method,
            file_state: key.file_state,
            threads: key.threads,
            bytes: key.bytes,
            commits: None,
            total_ms: None,
            ms_per_commit: None,
            ms_per_commit_p10: None,
            ms_per_commit_p90: None,
            p50_us: None,
            p90_us: None,
            p99_us: None,
            p999_us: None,
            max_us: None,
            latencies_us: None,
            commits_per_s: None,
            device_writes_per_commit: None,
            device_flushes_per_commit: None,
            device_bytes_per_commit: None,
            file_bytes_per_commit: None,
            guarantee: None,
            verdict: None,
            evidence: None,
            error: measured.error.clone(),
            slices_ms: Vec::new(),
        };
        let recorder = &measured.recorder;
        let commits = recorder.commits();
        if row.error.is_some() || commits == 0 {
            row.error
                .get_or_insert_with(|| "nothing measured".to_owned());
            return row;
        }
        let Some(assessment) = &measured.assessment else {
            row.error = Some("nothing is known of its guarantee".to_owned());
            return row;
        };
        let total_ms = recorder.time().as_secs_f64() * 1e3;
        let per_commit = |n: u64| n as f64 / commits as f64;
        let latencies = recorder.latencies();
        row.commits = Some(commits);
        row.total_ms = Some(total_ms);
        row.ms_per_commit = Some(total_ms / commits as f64);
        row.commits_per_s = Some(1e3 * commits as f64 / total_ms);
        row.p50_us = Some(latencies.quantile_us(0.5));
        row.p90_us = Some(latencies.quantile_us(0.9));
        row.p99_us = Some(latencies.quantile_us(0.99));
        row.p999_us = Some(latencies.quantile_us(0.999));
        row.max_us = Some(latencies.max_us());
        row.latencies_us = Distribution::of(latencies);
        if let Some(device) = recorder.device() {
            row.device_writes_per_commit = Some(per_commit(device.writes));
            row.device_bytes_per_commit = Some(per_commit(device.bytes));
            row.device_flushes_per_commit = device.flushes.map(per_commit);
        }
        row.file_bytes_per_commit = Some(per_commit(recorder.log_bytes()));
        row.guarantee = Some(assessment.guarantee);
        row.verdict = Some(assessment.verdict);
        row.evidence = Some(assessment.evidence.clone());
        let slices = recorder.slices().iter().filter(|s| s.commits > 0);
        row.slices_ms = slices
            .map(|s| s.time.as_secs_f64() * 1e3 / s.commits as f64)
            .collect();
        let noise = spread(&row.slices_ms);
        row.ms_per_commit_p10 = noise.map(|s| s.p10);
        row.ms_per_commit_p90 = noise.map(|s| s.p90);
        row
    }

    /// Survives loss of power, and nothing speaks against it.
    pub fn is_safe(&self) -> bool {
        self.error.is_none()
            && self.guarantee == Some(Guarantee::PowerLoss)
            && matches!(
                self.verdict,
                Some(Verdict::Proven | Verdict::Declared | Verdict::Unknown)
            )
    }
}

/// Milliseconds per commit of the fastest safe raw row that commits `bytes` at a time: what
/// ratios are taken to.
pub fn fastest_safe(rows: &[Row], bytes: u64) -> Option<f64> {
    let comparable = |r: &&Row| r.is_safe() && r.subject == SubjectKind::Raw && r.bytes == bytes;
    rows.iter()
        .filter(comparable)
        .filter_map(|r| r.ms_per_commit)
        .min_by(f64::total_cmp)
}

/// Milliseconds per commit that `row` is held against: a raw row against the fastest safe one of
/// as many bytes; a row of the log against the raw row of its method that writes the same bytes
/// to a file filled beforehand, headers and padding included, where there is one.
pub fn reference(rows: &[Row], row: &Row) -> Option<f64> {
    let same = || {
        let writes = row.file_bytes_per_commit?;
        rows.iter()
            .filter(|r| {
                r.subject == SubjectKind::Raw
                    && r.method == row.method
                    // The headers of segments count too.
                    && (writes / r.bytes as f64 - 1.0).abs() < 0.01
                    && r.file_state.is_some_and(FileState::is_written)
            })
            .filter_map(|r| r.ms_per_commit)
            .min_by(f64::total_cmp)
    };
    (row.subject == SubjectKind::Logforce && row.threads == 1)
        .then(same)
        .flatten()
        .or_else(|| fastest_safe(rows, row.bytes))
}

/// What is serialized by its name.
pub(crate) trait Named {
    fn name(&self) -> &'static str;
}
impl Named for Method {
    fn name(&self) -> &'static str {
        Method::name(*self)
    }
}
impl Named for FileState {
    fn name(&self) -> &'static str {
        FileState::name(*self)
    }
}
impl Named for Guarantee {
    fn name(&self) -> &'static str {
        Guarantee::name(*self)
    }
}
impl Named for Verdict {
    fn name(&self) -> &'static str {
        Verdict::name(*self)
    }
}

pub(crate) fn as_name<T: Named, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.serialize_some(value.name()),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn as_text<S: Serializer>(value: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}
