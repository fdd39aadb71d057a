//! Group commit: many threads that commit, and few that submit. The log, a simple group commit
//! ([`baseline`]) and a raw loop take turns with the same number of threads, so that noise affects all
//! of them. Further parts measure commits that no thread waits for, and commits during the preparation
//! of segments.

pub mod baseline;
mod blocking;
mod flags;
mod preparing;
mod raw;
pub(crate) mod records;
pub mod report;
mod submit;
mod targets;

#[cfg(test)]
mod tests;

pub use flags::main;

use crate::target::Target;
use logforce::Method;
use logforce_device::Assessment;
use logforce_measure::MeasureError;
use logforce_measure::group::{Setup, Slices};
use logforce_measure::library::{LONGEST_SEGMENT, SEGMENTS};
use report::GroupRow;
use std::time::Duration;

/// Size of the file that the baseline and the raw loop write to, bytes.
const FILE: u64 = 64 << 20;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Threads that wait for each of their commits.
    Commits,
    /// Threads that keep many commits in flight.
    Submit,
    /// One thread, with and without segments being prepared in the background.
    Preparing,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Commits, Part::Submit, Part::Preparing];

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Commits => "commits",
            Part::Submit => "submit",
            Part::Preparing => "preparing",
        }
    }
}

/// Options of the comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parts to run, in the order of [`Part::ALL`].
    pub parts: Vec<Part>,
    /// Numbers of committing threads; one case for each.
    pub threads: Vec<u32>,
    /// Record sizes, bytes; one case for each combination with a number of threads.
    pub records: Vec<u64>,
    /// Number of pairs of slices.
    pub pairs: u32,
    /// Duration of a slice.
    pub slice: Duration,
    /// Number of submitting threads.
    pub submitters: u32,
    /// Records that the submitting threads keep in flight, all together.
    pub outstanding: u32,
    /// Size of the segments that are prepared while one thread commits, bytes.
    pub segment: u64,
    /// Method for all subjects; `None` for the library's default.
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
    /// Targets of the measured cases.
    pub targets: Vec<Target>,
    /// Method used for forces.
    pub method: Method,
    /// Guarantee of a force, and how well it is established.
    pub assessment: Assessment,
    /// True if the user interrupted; the rows then hold the pairs completed before.
    pub interrupted: bool,
}

/// State shared by the parts.
struct Bench<'a> {
    options: &'a Options,
    slices: Slices,
    /// Number of pairs in all parts.
    pairs: f64,
    done: std::cell::Cell<f64>,
}

/// Results collected so far.
#[derive(Default)]
struct Results {
    rows: Vec<GroupRow>,
    targets: Vec<Target>,
}

/// Runs the comparison.
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

/// Returns the number of pairs of slices in all parts.
fn pairs(options: &Options) -> f64 {
    let cases = options.parts.iter().map(|part| match part {
        Part::Commits => options.threads.len() * options.records.len(),
        Part::Submit => 1,
        Part::Preparing => preparing::RECORDS.len(),
    });
    cases.sum::<usize>() as f64 * f64::from(options.pairs)
}

impl Bench<'_> {
    /// Measures the requested number of pairs. An interrupt ends the loop with an error and discards the
    /// pair in progress. `doing` is the text of the progress line.
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
