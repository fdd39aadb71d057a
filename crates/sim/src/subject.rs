//! What random runs are about: the log, or the page file.

use crate::known_bugs::{self, KnownBug};
use crate::{pages, simulation};
use std::fmt::Display;

/// A kind of random run.
pub trait Subject {
    /// What its runs covered.
    type Coverage: Default + Display + Send;

    /// The words of a command that choose it.
    const WORDS: &'static [&'static str];

    /// The known bugs that its runs have to find.
    const KNOWN_BUGS: &'static [KnownBug];

    /// Makes the run of a seed.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn run(seed: u64) -> Self::Coverage;

    /// Why a run did too little; `None` if it did enough.
    fn too_little(coverage: &Self::Coverage) -> Option<String>;

    /// Adds another's counts.
    fn add(all: &mut Self::Coverage, one: &Self::Coverage);

    /// How many runs these are.
    fn runs(coverage: &Self::Coverage) -> u64;

    /// What a large batch should have met and did not.
    fn gaps(coverage: &Self::Coverage) -> Vec<String>;
}

/// The log.
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

/// The page file.
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
