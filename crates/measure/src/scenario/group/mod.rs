//! The scenario `group`: commits to one log, by number of threads and size of the records.

mod text;

pub use crate::run::{MeasuredSlice, Series, SeriesPoint, Setup, Slices};
pub use text::{DEVICE, columns};

use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::MeasureError;
use crate::result::legend::Shown;
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Quantity, Row};
use crate::run::library::{LONGEST_SEGMENT, SEGMENTS};
use crate::run::rounds::{self, Case};
use logforce::Method;
use logforce_device::Assessment;
use logforce_terminal::numbers::bytes;
use std::time::Duration;

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers of committing threads, one case for each.
    pub threads: Vec<u32>,
    /// Sizes of a record in bytes, one case for each together with each number of threads.
    pub records: Vec<u64>,
    /// Number of slices of each case.
    pub rounds: u32,
    /// Length of a slice.
    pub slice: Duration,
    /// Method of the log; `None` for the library's default.
    pub method: Option<Method>,
}

impl Scenario for Options {
    const KIND: Kind = Kind::Group;
    /// Commit method and guarantee of the forces.
    type More = (Method, Assessment);

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Self::More>, MeasureError> {
        let slices = Slices::new(setup.clone(), self.method, self.slice)?;
        let need = (SEGMENTS + 1) * LONGEST_SEGMENT;
        setup.space.check(need, "another --dir")?;
        let of_size = |&bytes| self.threads.iter().map(move |&threads| (threads, bytes));
        let cases = self.records.iter().flat_map(of_size);
        let mut cases: Vec<Case<(u32, u64)>> = cases.map(Case::new).collect();
        let mut log = slices.log("log", LONGEST_SEGMENT);
        let name = |(threads, size): &(u32, u64)| format!("{threads} × {}", bytes(*size));
        let interrupted = rounds::run(
            self.rounds,
            &mut cases,
            &**slices.progress(),
            name,
            |&mut (threads, bytes)| slices.of_log(&mut log, bytes, threads, LONGEST_SEGMENT),
        )?;
        let path = log.path().to_owned();
        drop(log);
        if !interrupted {
            crate::run::workplace::remove(&path)?;
        }
        let rows = cases.iter().map(|case| {
            let row = match &case.error {
                Some(e) => failed(e),
                None => measured(&case.series),
            };
            of(row, case.of.0, case.of.1)
        });
        Ok(ScenarioOutcome {
            rows: rows.collect(),
            notes: Vec::new(),
            interrupted,
            more: (slices.method(), slices.assessment().clone()),
        })
    }

    fn conclude(&self, outcome: &ScenarioOutcome<Self::More>, _: &Machine) -> Conclusion {
        text::conclude(&outcome.rows).into()
    }

    fn notes(&self, _: &ScenarioOutcome<Self::More>) -> Vec<String> {
        Vec::new()
    }

    fn add((method, worth): Self::More, document: &mut Document) {
        document.method = method.into();
        document.guarantee = Some(worth.guarantee);
        document.verdict = Some(worth.verdict);
    }

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, shown, width)
    }
}

/// Returns the row of a case that failed.
pub fn failed(error: &MeasureError) -> Row {
    Row {
        slices: Some(0),
        commits: Some(0),
        ..Row::failed(Kind::Group, error)
    }
}

/// Returns the row of all slices of a case.
pub fn measured(series: &Series) -> Row {
    let counts = series.counts;
    let by_write = |n: u64| (counts.writes > 0).then(|| n as f64 / counts.writes as f64);
    let commits = series.commits();
    let mut row = Row {
        slices: Some(series.points.len() as u64),
        commits: Some(commits),
        records_per_write: by_write(commits),
        bytes_per_write: by_write(counts.bytes),
        forces_per_commit: series.by_commit(counts.forces()),
        ..Row::of(Kind::Group)
    };
    row.set(Quantity::CommitsPerS, series.spread(|p| p.rate));
    row.set_latencies(&series.latencies);
    row.set_device(series.device, commits);
    row.set_cpu_wait(series.cpu_wait, series.time);
    row
}

/// Sets the number of threads and the record size of a row.
pub fn of(row: Row, threads: u32, record_bytes: u64) -> Row {
    Row {
        threads: threads.into(),
        record_bytes,
        ..row
    }
}
