//! The scenario `pages`: commits of N pages and a header that makes them count. Written through,
//! each write durable by itself, or written and then forced by one barrier? From how many pages on
//! is the barrier cheaper?

mod conclusion;
mod crossover;
mod published;
pub mod report;
mod round;

pub use conclusion::conclude;
pub use crossover::{Crossover, crossover};
pub use published::{P3, Published};
pub use round::{Layout, PAGE, Way};

use crate::MeasureError;
use crate::group::{Series, Setup, Slices};
use crate::in_flight::{DEPTH, InFlight};
use crate::prepare::PreparedFile;
use logforce_device::{Assessment, Barrier, Facts, FileState, ForceBy, Plan, Platform};
use report::Row;
use round::Commit;
use std::time::Duration;

/// The number of pages that the longest commit may have.
pub const MOST_PAGES: u64 = 4096;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pages of a commit, one case for each.
    pub pages: Vec<u64>,
    /// Bytes of the file, which is filled beforehand.
    pub size: u64,
    /// Slices of each case.
    pub rounds: u32,
    /// How long a slice takes.
    pub slice: Duration,
    /// Through the system's cache; past it otherwise, where that can be had.
    pub cached: bool,
}

/// What came out.
pub struct Outcome {
    /// A row for each case.
    pub rows: Vec<Row>,
    /// Whether writes went past the system's cache.
    pub direct: bool,
    /// Whether the user interrupted: rows hold the rounds that were whole until then.
    pub interrupted: bool,
}

/// One case, and what its slices came to.
struct Case {
    layout: Layout,
    way: Way,
    pages: u64,
    commit: Commit,
    assessment: Option<Assessment>,
    series: Series,
    error: Option<MeasureError>,
}

/// The least that a file must hold for commits of so many pages, bytes: scattered ones never touch.
pub fn least_size(pages: u64) -> u64 {
    (4 * pages + 2) * PAGE as u64
}

/// Measures.
pub fn run(options: &Options, setup: Setup) -> Result<Outcome, MeasureError> {
    setup
        .space
        .check(options.size, "another --dir, or a smaller --size")?;
    let slices = Slices::new(setup, None, options.slice)?;
    let facts = slices
        .directory()
        .facts()
        .map_err(MeasureError::io("asking about the filesystem"))?;
    let direct = !options.cached && can_be_direct(&facts);
    let mut file = PreparedFile::new(
        slices.directory().clone(),
        // The journal's own state: blocks that held something before.
        FileState::Recycled,
        options.size,
        PAGE,
        slices.interrupt().clone(),
        slices.progress().clone(),
    );
    file.begin(0)?;
    let open = file.open(direct)?;
    let in_flight = InFlight::new(DEPTH, facts.platform);
    let in_flight = in_flight.map_err(MeasureError::io("starting threads"))?;
    let mut cases = cases(options, &facts, direct);
    let ended = rounds(options, &slices, &mut cases, |case, number| {
        case.commit.make(&open, &in_flight, number)
    });
    let interrupted = slices.interrupt().is_raised();
    let has_rounds = cases.iter().any(|c| !c.series.points.is_empty());
    if interrupted && !has_rounds {
        return Err(MeasureError::Interrupted);
    }
    if !interrupted {
        ended?;
    }
    Ok(Outcome {
        rows: rows(&cases),
        direct,
        interrupted,
    })
}

/// Whether a page can be written past the system's cache.
fn can_be_direct(facts: &Facts) -> bool {
    facts
        .direct
        .is_some_and(|d| PAGE.is_multiple_of(d.offset.max(1) as usize))
}

fn cases(options: &Options, facts: &Facts, direct: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for layout in Layout::ALL {
        for &pages in &options.pages {
            for way in Way::ALL {
                let refused = refusal(facts.platform, way);
                cases.push(Case {
                    layout,
                    way,
                    pages,
                    commit: Commit::new(layout, way, pages, options.size / PAGE as u64),
                    assessment: facts.assess_plan(way.plan(direct), FileState::Recycled),
                    series: Series::default(),
                    error: refused.map(|why| MeasureError::NotOffered(why.to_owned())),
                });
            }
        }
    }
    cases
}

/// Why a system has no such way.
fn refusal(platform: Platform, way: Way) -> Option<&'static str> {
    let writes_through = platform
        .methods()
        .iter()
        .any(|m| m.plan().force == ForceBy::Through);
    (way != Way::Barrier && !writes_through).then_some(
        "macOS has no write that is durable by itself: O_DSYNC ends in the device's cache there",
    )
}

impl Way {
    fn plan(self, direct: bool) -> Plan {
        let force = match self {
            Way::Barrier => ForceBy::Barrier(Barrier::Data),
            Way::WriteThrough | Way::Gathered => ForceBy::Through,
        };
        Plan { direct, force }
    }
}

fn rounds(
    options: &Options,
    slices: &Slices,
    cases: &mut [Case],
    commit: impl Fn(&mut Case, u64) -> std::io::Result<()>,
) -> Result<(), MeasureError> {
    let count = cases.len();
    let all = f64::from(options.rounds) * count as f64;
    let (mut done, mut number) = (0.0, 0);
    for round in 0..options.rounds {
        // Each round begins elsewhere: no case always comes after the same neighbour.
        let first = count * round as usize / options.rounds as usize;
        let mut taken = Vec::new();
        taken.resize_with(count, || None);
        for nth in 0..count {
            let index = (first + nth) % count;
            let case = &mut cases[index];
            slices.progress().doing(&case.name());
            slices.progress().fraction(done / all);
            done += 1.0;
            if case.error.is_some() {
                continue;
            }
            let slice = slices.slice(|limit, recorder, counts| {
                slices.counted(counts, || {
                    recorder.timed(|laps| {
                        while laps.more(limit) {
                            number += 1;
                            commit(case, number).map_err(MeasureError::io("commit"))?;
                            laps.commit();
                        }
                        Ok(())
                    })
                })
            });
            match slice {
                Ok(slice) => taken[index] = Some(slice),
                Err(MeasureError::Interrupted) => return Err(MeasureError::Interrupted),
                Err(e) => case.error = Some(e),
            }
        }
        for (case, slice) in cases.iter_mut().zip(&taken) {
            slice.iter().for_each(|s| case.series.push(s));
        }
    }
    Ok(())
}

impl Case {
    fn name(&self) -> String {
        format!("{} × {}, {}", self.pages, self.layout, self.way)
    }
}

/// One row for each case, with its ratio to the barrier of its layout and number of pages.
fn rows(cases: &[Case]) -> Vec<Row> {
    let base = |of: &Case| {
        let same = |c: &&Case| c.layout == of.layout && c.pages == of.pages;
        let mut barriers = cases.iter().filter(|c| c.way == Way::Barrier);
        barriers.find(same).filter(|c| c.error.is_none())
    };
    cases
        .iter()
        .map(|case| {
            let row = match &case.error {
                Some(e) => Row::failed(e),
                None => {
                    let ratio =
                        base(case).and_then(|b| case.series.ratio(&b.series, |p| 1.0 / p.rate));
                    Row::measured(&case.series, ratio, case.assessment.as_ref())
                }
            };
            row.of(case.layout, case.way, case.pages)
        })
        .collect()
}

#[cfg(test)]
mod tests;
