//! What the rounds come to: medians, ratios, what was lost.

use crate::rivals::rival::{Kept, RivalRun};
use crate::rivals::rounds::Line;
use crate::rivals::subjects::{LOGFORCE, RAW};
use logforce_measure::run::stats::spread;
use serde::Serialize;

/// A line of a table.
#[derive(Debug, Clone, Serialize)]
pub struct RivalRow {
    /// Name of the filesystem on the command line.
    pub filesystem: String,
    /// Name of the rival.
    pub rival: &'static str,
    /// Its version.
    pub version: String,
    /// Bytes of a record.
    pub record: usize,
    /// Threads that commit.
    pub threads: usize,
    /// Rounds that have a result.
    pub rounds: usize,
    /// Commits per second, the median of the rounds.
    pub commits_per_second: Option<f64>,
    /// The lowest and the highest of the rounds.
    pub commits_per_second_range: Option<(f64, f64)>,
    /// Beside what the rate is: the raw loop for one thread, the library for several. The median
    /// of the rounds' ratios.
    pub ratio: Option<f64>,
    /// Median of the rounds, in microseconds.
    pub p50_us: Option<f64>,
    /// Median of the rounds, in microseconds.
    pub p99_us: Option<f64>,
    /// Median of the rounds, in microseconds.
    pub p999_us: Option<f64>,
    /// The device's flushes for one commit.
    pub flushes_per_commit: Option<f64>,
    /// The device's writes for one commit.
    pub writes_per_commit: Option<f64>,
    /// What was there after all rounds' reopening; `None` of what keeps no records.
    pub kept: Option<KeptRow>,
    /// What went wrong, of the first round where something did.
    pub error: Option<String>,
}

/// Acknowledged records, over all rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct KeptRow {
    /// How many were acknowledged.
    pub acknowledged: u64,
    /// How many of them were not there after reopening.
    pub missing: u64,
    /// How many were there that nobody wrote, or were changed.
    pub foreign: u64,
}

/// The rows, in the order of the lines.
pub fn rows(lines: &[Line<'_>]) -> Vec<RivalRow> {
    lines.iter().map(|line| row(line, lines)).collect()
}

fn row(line: &Line<'_>, lines: &[Line<'_>]) -> RivalRow {
    let seen: Vec<&RivalRun> = line.rounds.iter().flatten().collect();
    let of =
        |value: &dyn Fn(&RivalRun) -> Option<f64>| median(seen.iter().filter_map(|s| value(s)));
    let rates = || seen.iter().map(|s| s.rate());
    let range = rates().reduce(f64::min).zip(rates().reduce(f64::max));
    RivalRow {
        filesystem: line.filesystem.name.clone(),
        rival: line.rival.name(),
        version: line.rival.version(),
        record: line.shape.record,
        threads: line.shape.threads,
        rounds: seen.len(),
        commits_per_second: median(rates()),
        commits_per_second_range: range,
        ratio: median(ratios(line, lines)),
        p50_us: of(&|s| Some(s.p50_us)),
        p99_us: of(&|s| Some(s.p99_us)),
        p999_us: of(&|s| Some(s.p999_us)),
        flushes_per_commit: of(&|s| per_commit(s.flushes, s)),
        writes_per_commit: of(&|s| per_commit(s.writes, s)),
        kept: kept(&seen),
        error: line.rounds.iter().find_map(|r| r.as_ref().err().cloned()),
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    spread(&values.into_iter().collect::<Vec<_>>()).map(|s| s.median)
}

fn per_commit(count: Option<u64>, seen: &RivalRun) -> Option<f64> {
    (seen.commits > 0)
        .then_some(count)
        .flatten()
        .map(|count| count as f64 / seen.commits as f64)
}

/// With what a rate is compared.
pub fn yardstick(threads: usize) -> &'static str {
    if threads == 1 { RAW } else { LOGFORCE }
}

/// Each round's rate beside that of the yardstick in the same round.
fn ratios(line: &Line<'_>, lines: &[Line<'_>]) -> Vec<f64> {
    let wanted = yardstick(line.shape.threads);
    let Some(beside) = lines
        .iter()
        .filter(|l| l.filesystem.name == line.filesystem.name)
        .find(|l| l.shape == line.shape && l.rival.name() == wanted)
    else {
        return Vec::new();
    };
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
        acknowledged: sum(|k| k.acknowledged),
        missing: sum(|k| k.missing),
        foreign: sum(|k| k.foreign),
    })
}
