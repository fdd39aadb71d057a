//! The scenario `pages`: commits of N pages and a header that makes them take effect. Compares
//! write-through, where each write is durable by itself, with plain writes and one barrier. Finds the
//! number of pages from which the barrier is cheaper.

mod conclusion;
mod published;
mod round;
mod stretch;
mod text;

pub use conclusion::conclude;
pub use published::{P3, Published};
pub use round::{Layout, PAGE, Way};

use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::MeasureError;
use crate::result::legend::{Shown, warned};
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Quantity, Row};
use crate::run::in_flight::{DEPTH, InFlight};
use crate::run::prepare::PreparedFile;
use crate::run::rounds::{self, Case};
use crate::run::space::remedies;
use crate::run::{SeriesPoint, Setup, Slices};
use logforce_device::{Assessment, Barrier, Facts, FileState, ForceBy, Plan, Platform};
use round::Commit;
use std::time::Duration;

/// Maximum number of pages of a commit.
pub const MOST_PAGES: u64 = 4096;

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers of pages of a commit, one case for each.
    pub pages: Vec<u64>,
    /// Size of the file, which is filled beforehand, bytes.
    pub size: u64,
    /// Number of slices of each case.
    pub rounds: u32,
    /// Length of a slice.
    pub slice: Duration,
    /// True to write through the system's cache; otherwise direct I/O is used if available.
    pub cached: bool,
}

/// One case.
struct Of {
    layout: Layout,
    way: Way,
    pages: u64,
    commit: Commit,
    assessment: Option<Assessment>,
}

/// Returns the smallest file for commits of `pages` pages, bytes. Scattered pages must not be adjacent.
pub fn least_size(pages: u64) -> u64 {
    (4 * pages + 2) * PAGE as u64
}

impl Scenario for Options {
    const KIND: Kind = Kind::Pages;
    /// True if the writes used direct I/O.
    type More = bool;

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<bool>, MeasureError> {
        let least = least_size(self.pages.iter().copied().max().unwrap_or(1));
        let remedies = remedies(self.size > least && least <= setup.space.usable());
        setup.space.check(self.size, remedies)?;
        let slices = Slices::new(setup.clone(), None, self.slice)?;
        let facts = slices
            .directory()
            .facts()
            .map_err(MeasureError::io("asking about the filesystem"))?;
        let direct = !self.cached && can_be_direct(&facts);
        let mut file = PreparedFile::new(
            slices.directory().clone(),
            // Like a journal that is reused: the blocks already hold data.
            FileState::Recycled,
            self.size,
            PAGE,
            slices.interrupt().clone(),
            slices.progress().clone(),
        );
        file.begin(0)?;
        let open = file.open(direct)?;
        let in_flight = InFlight::new(DEPTH, facts.platform);
        let in_flight = in_flight.map_err(MeasureError::io("starting threads"))?;
        let mut cases = cases(self, &facts, direct);
        let mut number = 0;
        let slice = |of: &mut Of| {
            slices.slice(|limit, recorder, counts| {
                slices.counted(counts, || {
                    recorder.timed(|laps| {
                        while laps.more(limit) {
                            number += 1;
                            laps.untimed(|| of.commit.renew());
                            let made = of.commit.make(&open, &in_flight, number);
                            made.map_err(MeasureError::io("commit"))?;
                            laps.commit();
                        }
                        Ok(())
                    })
                })
            })
        };
        let name = |of: &Of| format!("{} × {}, {}", of.pages, of.layout, of.way);
        let interrupted = rounds::run(self.rounds, &mut cases, &**slices.progress(), name, slice)?;
        Ok(ScenarioOutcome {
            rows: rows(&cases),
            notes: Vec::new(),
            interrupted,
            more: direct,
        })
    }

    fn conclude(&self, outcome: &ScenarioOutcome<bool>, _: &Machine) -> Conclusion {
        warned(&outcome.rows, conclude(&outcome.rows)).into()
    }

    fn notes(&self, outcome: &ScenarioOutcome<bool>) -> Vec<String> {
        text::notes(outcome)
    }

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, shown, width)
    }
}

/// Returns whether a page can be written with direct I/O.
fn can_be_direct(facts: &Facts) -> bool {
    facts
        .direct
        .is_some_and(|d| PAGE.is_multiple_of(d.offset.max(1) as usize))
}

fn cases(options: &Options, facts: &Facts, direct: bool) -> Vec<Case<Of>> {
    let mut cases = Vec::new();
    for layout in Layout::ALL {
        for &pages in &options.pages {
            for way in Way::ALL {
                let of = Of {
                    layout,
                    way,
                    pages,
                    commit: Commit::new(layout, way, pages, options.size / PAGE as u64),
                    assessment: facts.assess_plan(way.plan(direct), FileState::Recycled),
                };
                cases.push(Case::refused(of, refusal(facts.platform, way)));
            }
        }
    }
    cases
}

/// Returns the reason why an operating system does not have a way; `None` if it has it.
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

/// Returns one row for each case, with its ratio to the barrier of the same layout and number of pages.
fn rows(cases: &[Case<Of>]) -> Vec<Row> {
    let base = |of: &Of| {
        let is_it = |c: &&Case<Of>| {
            c.of.way == Way::Barrier && c.of.layout == of.layout && c.of.pages == of.pages
        };
        cases.iter().find(is_it).filter(|c| c.error.is_none())
    };
    let row = |case: &Case<Of>| {
        let of = &case.of;
        let mut row = Row {
            layout: of.layout.into(),
            way: of.way.into(),
            pages: of.pages,
            slices: Some(case.series.points.len() as u64),
            commits: Some(case.series.commits()),
            ..Row::of(Kind::Pages)
        };
        if let Some(e) = &case.error {
            (row.slices, row.commits) = (Some(0), Some(0));
            row.error = Some(e.to_string());
            return row;
        }
        let (series, counts) = (&case.series, case.series.counts);
        let ratio = base(of).and_then(|b| series.ratio(&b.series, |p| p.ms()));
        row.each = series.points.iter().map(SeriesPoint::ms).collect();
        row.set(Quantity::CommitsPerS, series.spread(|p| p.rate));
        row.set(Quantity::Ratio, ratio);
        row.set_latencies(&series.latencies);
        row.set_device(series.device, series.commits());
        row.set_cpu_wait(series.cpu_wait, series.time);
        row.set_worth(of.assessment.as_ref());
        row.writes_per_commit = series.by_commit(counts.writes);
        row.through_per_commit = series.by_commit(counts.through);
        row.barriers_per_commit = series.by_commit(counts.barriers);
        row
    };
    cases.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
