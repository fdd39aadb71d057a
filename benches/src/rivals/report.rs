//! Results of the rounds: medians, ratios, lost records.

use crate::rivals::rival::{Kept, RivalRun};
use crate::rivals::rounds::Line;
use crate::rivals::subjects::{LOGFORCE, RAW};
use logforce_measure::run::stats::spread;
use serde::{Deserialize, Serialize};

/// A rival with a workload on a filesystem, and the results of its rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the rival.
    pub rival: String,
    /// Version.
    pub version: String,
    /// Size of a record, bytes.
    pub record: usize,
    /// Number of committing threads.
    pub threads: usize,
    /// Results by round, or the error of a failed round.
    pub rounds: Vec<Result<RivalRun, String>>,
}

impl Measured {
    /// Returns the parts that distinguish it from the others on the same filesystem.
    pub fn key(&self) -> (String, String, usize, usize) {
        let Measured {
            rival,
            version,
            record,
            threads,
            ..
        } = self;
        (rival.clone(), version.clone(), *record, *threads)
    }
}

impl From<Line<'_>> for Measured {
    fn from(line: Line<'_>) -> Measured {
        Measured {
            filesystem: line.filesystem.name.clone(),
            rival: line.rival.name().to_owned(),
            version: line.rival.version(),
            record: line.shape.record,
            threads: line.shape.threads,
            rounds: line.rounds,
        }
    }
}

/// A line of a table.
#[derive(Debug, Clone)]
pub struct RivalRow {
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the rival.
    pub rival: String,
    /// Version.
    pub version: String,
    /// Size of a record, bytes.
    pub record: usize,
    /// Number of committing threads.
    pub threads: usize,
    /// Commits per second, median of the rounds.
    pub commits_per_second: Option<f64>,
    /// Lowest and highest rate of the rounds.
    pub commits_per_second_range: Option<(f64, f64)>,
    /// Median of the rounds' ratios of this rate to the yardstick's: the raw loop's for one thread, the
    /// library's for several.
    pub ratio: Option<f64>,
    /// Median duration of a commit, median of the rounds, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile, median of the rounds, microseconds.
    pub p99_us: Option<f64>,
    /// 99.9th percentile, median of the rounds, microseconds.
    pub p999_us: Option<f64>,
    /// Flushes of the device per commit.
    pub flushes_per_commit: Option<f64>,
    /// Writes of the device per commit.
    pub writes_per_commit: Option<f64>,
    /// Records found after reopening, sum of all rounds; `None` for a rival that keeps no records.
    pub kept: Option<KeptRow>,
    /// Error of the first failed round.
    pub error: Option<String>,
}

/// Acknowledged records of all rounds.
#[derive(Debug, Clone, Copy)]
pub struct KeptRow {
    /// Number of acknowledged records missing after reopening.
    pub missing: u64,
    /// Number of records that were never written, or came back changed.
    pub foreign: u64,
}

/// Returns the rows, in the order of the lines.
pub fn rows(lines: &[Measured]) -> Vec<RivalRow> {
    lines.iter().map(|line| row(line, lines)).collect()
}

fn row(line: &Measured, lines: &[Measured]) -> RivalRow {
    let seen: Vec<&RivalRun> = line.rounds.iter().flatten().collect();
    let of =
        |value: &dyn Fn(&RivalRun) -> Option<f64>| median(seen.iter().filter_map(|s| value(s)));
    let rates = || seen.iter().map(|s| s.rate());
    let range = rates().reduce(f64::min).zip(rates().reduce(f64::max));
    RivalRow {
        filesystem: line.filesystem.clone(),
        rival: line.rival.clone(),
        version: line.version.clone(),
        record: line.record,
        threads: line.threads,
        commits_per_second: median(rates()),
        commits_per_second_range: range,
        ratio: median(to_yardstick(line, lines)),
        p50_us: of(&|s| Some(s.p50_us)),
        p99_us: of(&|s| Some(s.p99_us)),
        p999_us: of(&|s| Some(s.p999_us)),
        flushes_per_commit: of(&|s| per_commit(s.flushes, s)),
        writes_per_commit: of(&|s| per_commit(s.writes, s)),
        kept: kept(&seen),
        error: line.rounds.iter().find_map(|r| r.as_ref().err().cloned()),
    }
}

/// Returns the median, or `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    spread(&values.into_iter().collect::<Vec<_>>()).map(|s| s.median)
}

fn per_commit(count: Option<u64>, seen: &RivalRun) -> Option<f64> {
    (seen.commits > 0)
        .then_some(count)
        .flatten()
        .map(|count| count as f64 / seen.commits as f64)
}

/// Returns the name of the rival that rates are compared with.
pub fn yardstick(threads: usize) -> &'static str {
    if threads == 1 { RAW } else { LOGFORCE }
}

fn to_yardstick(line: &Measured, lines: &[Measured]) -> Vec<f64> {
    let wanted = yardstick(line.threads);
    let beside = lines
        .iter()
        .filter(|l| l.filesystem == line.filesystem)
        .find(|l| (l.record, l.threads) == (line.record, line.threads) && l.rival == wanted);
    beside.map_or(Vec::new(), |beside| ratios(line, beside))
}

/// Returns each round's ratio of the rate of one line to that of another.
pub fn ratios(line: &Measured, beside: &Measured) -> Vec<f64> {
    let pairs = line.rounds.iter().zip(&beside.rounds);
    pairs
        .filter_map(|pair| match pair {
            (Ok(ours), Ok(theirs)) => Some(ours.rate() / theirs.rate()),
            _ => None,
        })
        .collect()
}

fn kept(seen: &[&RivalRun]) -> Option<KeptRow> {
    let sum = |of: fn(Kept) -> u64| seen.iter().filter_map(|s| s.kept).map(of).sum();
    seen.iter().any(|s| s.kept.is_some()).then(|| KeptRow {
        missing: sum(|k| k.missing),
        foreign: sum(|k| k.foreign),
    })
}
