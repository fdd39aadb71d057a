//! Group commit: many threads that commit, and few that submit. The log beside a simple group
//! commit ([`baseline`]) and beside a raw loop of as many threads, in slices that take turns, so
//! that noise hits all of them. Then commits nobody waits for, and commits while segments are
//! being prepared.

mod baseline;
mod blocking;
mod flags;
mod preparing;
mod raw;
pub mod report;
mod submit;
mod targets;

#[cfg(test)]
mod tests;

pub use flags::main;

use logforce::Method;
use logforce_device::Assessment;
use logforce_measure::MeasureError;
use logforce_measure::group::{Setup, Slices};
use logforce_measure::library::{LONGEST_SEGMENT, SEGMENTS};
use report::GroupRow;
use std::time::Duration;
use targets::Target;

/// Size of the file that the baseline and the raw loop write, bytes.
const FILE: u64 = 64 << 20;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Threads that wait for each of their commits.
    Commits,
    /// Threads that keep many commits in flight.
    Submit,
    /// One thread, while segments are prepared in the background and while none are.
    Preparing,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::Commits, Part::Submit, Part::Preparing];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Commits => "commits",
            Part::Submit => "submit",
            Part::Preparing => "preparing",
        }
    }
}

/// What to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which parts, in our order.
    pub parts: Vec<Part>,
    /// How many threads commit, one case for each.
    pub threads: Vec<u32>,
    /// Bytes of a record, one case for each with each number of threads.
    pub records: Vec<u64>,
    /// Pairs of slices.
    pub pairs: u32,
    /// How long a slice takes.
    pub slice: Duration,
    /// Threads that submit.
    pub submitters: u32,
    /// Records that they keep in flight, all together.
    pub outstanding: u32,
    /// Size of the segments that are prepared while one thread commits, bytes.
    pub segment: u64,
    /// The method of all; `None` for the library's default.
    pub method: Option<Method>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            parts: Part::ALL.to_vec(),
            threads: vec![1, 16, 64, 256],
            records: vec![128, 16 << 10],
            pairs: 20,
            slice: Duration::from_millis(250),
            submitters: 2,
            outstanding: 1024,
            segment: 1 << 20,
            method: None,
        }
    }
}

/// Results of the bench.
pub struct GroupOutcome {
    /// One row for each subject of each case.
    pub rows: Vec<GroupRow>,
    /// What was aimed at, where the case was measured.
    pub targets: Vec<Target>,
    /// How a force was done.
    pub method: Method,
    /// What a force was worth.
    pub assessment: Assessment,
    /// Whether the user interrupted: rows hold the pairs that were whole until then.
    pub interrupted: bool,
}

/// What the parts share.
struct Bench<'a> {
    options: &'a Options,
    slices: Slices,
    /// Pairs in all parts.
    pairs: f64,
    done: std::cell::Cell<f64>,
}

/// Results as they come in.
#[derive(Default)]
struct Results {
    rows: Vec<GroupRow>,
    targets: Vec<Target>,
}

/// Compares.
pub fn run(options: &Options, setup: Setup) -> Result<GroupOutcome, MeasureError> {
    let space = setup.space;
    let bench = Bench {
        options,
        slices: Slices::new(setup, options.method, options.slice)?,
        pairs: pairs(options),
        done: std::cell::Cell::new(0.0),
    };
    let need = options.parts.iter().map(|part| match part {
        Part::Commits => (SEGMENTS + 1) * LONGEST_SEGMENT + FILE,
        Part::Submit => (SEGMENTS + 1) * LONGEST_SEGMENT,
        Part::Preparing => preparing::space(options),
    });
    space.check(need.max().unwrap_or(0), "another --dir")?;
    let interrupt = bench.slices.interrupt();
    let mut results = Results::default();
    for &part in &options.parts {
        let result = match part {
            Part::Commits => blocking::run(&bench, &mut results),
            Part::Submit => submit::run(&bench, &mut results),
            Part::Preparing => preparing::run(&bench, &mut results),
        };
        if interrupt.is_raised() {
            break;
        }
        if let Err(e) = result {
            results.rows.push(GroupRow::failed(part, &e));
        }
    }
    let interrupted = interrupt.is_raised();
    if interrupted && results.rows.is_empty() {
        return Err(MeasureError::Interrupted);
    }
    Ok(GroupOutcome {
        rows: results.rows,
        targets: results.targets,
        method: bench.slices.method(),
        assessment: bench.slices.assessment().clone(),
        interrupted,
    })
}

/// How many pairs of slices there will be.
fn pairs(options: &Options) -> f64 {
    let cases = options.parts.iter().map(|part| match part {
        Part::Commits => options.threads.len() * options.records.len(),
        Part::Submit => 1,
        Part::Preparing => preparing::RECORDS.len(),
    });
    cases.sum::<usize>() as f64 * f64::from(options.pairs)
}

impl Bench<'_> {
    /// Measures pairs until there are enough, or until the user has had enough: what was begun and
    /// not ended then is no pair. Told how far it is in the words of `doing`.
    fn each_pair(
        &self,
        doing: &str,
        mut pair: impl FnMut(u32) -> Result<(), MeasureError>,
    ) -> Result<(), MeasureError> {
        let progress = self.slices.progress();
        for nth in 0..self.options.pairs {
            progress.doing(&format!("{doing}: pair {}", nth + 1));
            progress.fraction(self.done.get() / self.pairs);
            pair(nth)?;
            self.done.set(self.done.get() + 1.0);
        }
        Ok(())
    }
}
