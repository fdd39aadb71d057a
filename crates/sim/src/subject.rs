//! Subjects of random runs: the log, the page file, or a durable file.

use crate::known_bugs::{self, KnownBug};
use crate::{files, pages, simulation};
use std::fmt::Display;

/// A kind of random run.
pub trait Subject {
    /// Coverage of its runs.
    type Coverage: Default + Display + Send;

    /// Words of a command that choose it.
    const WORDS: &'static [&'static str];

    /// Known bugs that its runs must find.
    const KNOWN_BUGS: &'static [KnownBug];

    /// Makes the run of a seed.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn run(seed: u64) -> Self::Coverage;

    /// Returns the reason for which a run did too little; `None` if it did enough.
    fn too_little(coverage: &Self::Coverage) -> Option<String>;

    /// Adds the counts of another.
    fn add(all: &mut Self::Coverage, one: &Self::Coverage);

    /// Returns the number of runs.
    fn runs(coverage: &Self::Coverage) -> u64;

    /// Returns the cases that a large batch should have met and did not.
    fn gaps(coverage: &Self::Coverage) -> Vec<String>;
}

/// Random runs of the log.
pub struct LogRuns;

impl Subject for LogRuns {
    type Coverage = simulation::Coverage;
    const WORDS: &'static [&'static str] = &[];
    const KNOWN_BUGS: &'static [KnownBug] = known_bugs::SIMULATION;

    fn run(seed: u64) -> Self::Coverage {
        simulation::run(seed)
    }

    fn too_little(coverage: &Self::Coverage) -> Option<String> {
        let enough =
            coverage.calls >= simulation::CALLS && coverage.power_cuts >= simulation::POWER_CUTS;
        (!enough).then(|| {
            format!(
                "only {} calls and {} power cuts",
                coverage.calls, coverage.power_cuts
            )
        })
    }

    fn add(all: &mut Self::Coverage, one: &Self::Coverage) {
        all.add(one);
    }

    fn runs(coverage: &Self::Coverage) -> u64 {
        coverage.runs
    }

    fn gaps(coverage: &Self::Coverage) -> Vec<String> {
        coverage.gaps()
    }
}

/// Random runs of the page file.
pub struct PageRuns;

impl Subject for PageRuns {
    type Coverage = pages::Coverage;
    const WORDS: &'static [&'static str] = &["--pages"];
    const KNOWN_BUGS: &'static [KnownBug] = known_bugs::PAGES;

    fn run(seed: u64) -> Self::Coverage {
        pages::run(seed)
    }

    fn too_little(coverage: &Self::Coverage) -> Option<String> {
        (coverage.calls < pages::CALLS).then(|| format!("only {} calls", coverage.calls))
    }

    fn add(all: &mut Self::Coverage, one: &Self::Coverage) {
        all.add(one);
    }

    fn runs(coverage: &Self::Coverage) -> u64 {
        coverage.runs
    }

    fn gaps(coverage: &Self::Coverage) -> Vec<String> {
        coverage.gaps()
    }
}

/// Random runs of a durable file.
pub struct FileRuns;

impl Subject for FileRuns {
    type Coverage = files::Coverage;
    const WORDS: &'static [&'static str] = &["--files"];
    const KNOWN_BUGS: &'static [KnownBug] = known_bugs::FILES;

    fn run(seed: u64) -> Self::Coverage {
        files::run(seed)
    }

    fn too_little(coverage: &Self::Coverage) -> Option<String> {
        (coverage.calls < files::CALLS).then(|| format!("only {} calls", coverage.calls))
    }

    fn add(all: &mut Self::Coverage, one: &Self::Coverage) {
        all.add(one);
    }

    fn runs(coverage: &Self::Coverage) -> u64 {
        coverage.runs
    }

    fn gaps(coverage: &Self::Coverage) -> Vec<String> {
        coverage.gaps()
    }
}
