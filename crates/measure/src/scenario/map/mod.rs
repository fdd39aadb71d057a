//! The scenario `map`: small commits to a large file of pages. The pages are changed in a mapping and
//! synced by `msync`, written in sorted runs and forced, or committed to our page files. The results
//! are the time, the processor time of the system, and the growth of both with the size of the file.

mod conclusion;
mod file;
mod method;
mod published;
mod text;

pub use crate::run::CpuTimes;
pub use conclusion::conclude;
pub use method::MapMethod;
pub use published::P4;

use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::result::legend::{Shown, warned};
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Quantity, Row};
use crate::run::counting::CountingSystem;
use crate::run::in_flight::{DEPTH, InFlight};
use crate::run::rounds::{self, Case};
use crate::run::space::remedies;
use crate::run::{Limit, MeasuredSlice, Series, SeriesPoint, Setup};
use crate::{MeasureError, Recorder};
use logforce_device::{Facts, Platform, System as _};
use logforce_terminal::numbers::bytes;
use method::{Committer, Raw};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of a page, bytes.
pub const PAGE: u64 = 4096;

/// Divisors of the largest size: the smallest file is 1/16 of it, the middle one 1/4.
pub const SIZES: [u64; 3] = [16, 4, 1];

/// Smallest value of `--size`, bytes: the smallest of the three files needs enough pages.
pub const LEAST: u64 = 16 << 20;

/// Space for the tables of the page files and for the log of the logged ones, bytes.
const BESIDE: u64 = 1 << 30;

/// A file mapped into memory.
pub trait Mapping {
    /// Copies bytes to an offset.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()>;
    /// Makes ranges durable.
    fn sync(&mut self, ranges: &[Range<u64>]) -> std::io::Result<()>;
}

/// Functions of the operating system, beside those for files.
#[derive(Debug, Clone, Copy)]
pub struct Os {
    /// Maps the first bytes of a file.
    pub map: fn(&Path, u64) -> std::io::Result<Box<dyn Mapping>>,
    /// Returns the processor time so far; `None` if the system does not report it.
    pub times: fn() -> Option<CpuTimes>,
}

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sizes of the files, bytes, in ascending order.
    pub sizes: Vec<u64>,
    /// Number of pages that a commit changes, without the one that makes the change take effect.
    pub pages: u64,
    /// Number of slices of each case.
    pub rounds: u32,
    /// Length of a slice.
    pub slice: Duration,
    /// True to measure the library's page files too; otherwise their rows are left out.
    pub page_files: bool,
    /// Mapping and processor time.
    pub os: Os,
}

/// One size and one method.
struct Of {
    size: u64,
    method: MapMethod,
    /// Committer; `None` if the method is not available.
    committer: Option<Box<dyn Committer>>,
}

impl Scenario for Options {
    const KIND: Kind = Kind::Map;
    type More = ();

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome, MeasureError> {
        let all: u64 = self.sizes.iter().sum();
        let largest = self.sizes.iter().copied().max().unwrap_or(LEAST);
        // The files of the smallest --size, in the same proportions.
        let least = (all as f64 * LEAST as f64 / largest as f64) as u64;
        let remedies = remedies(largest > LEAST && self.need(least) <= setup.space.usable());
        setup.space.check(self.need(all), remedies)?;
        let (mut cases, facts) = cases(self, setup)?;
        let mut random = Random(0x6d61_7021);
        let name = |of: &Of| format!("{}, {}", bytes(of.size), of.method);
        let slice = |of: &mut Of| of.slice(self, setup, &mut random);
        let interrupted = rounds::run(self.rounds, &mut cases, &*setup.progress, name, slice)?;
        Ok(ScenarioOutcome {
            rows: rows(&cases, &facts),
            notes: Vec::new(),
            interrupted,
            more: (),
        })
    }

    fn conclude(&self, outcome: &ScenarioOutcome, _: &Machine) -> Conclusion {
        warned(&outcome.rows, conclude(&outcome.rows)).into()
    }

    fn notes(&self, outcome: &ScenarioOutcome) -> Vec<String> {
        text::notes(&outcome.rows, self.pages)
    }

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, shown, width)
    }
}

impl Options {
    /// Returns the disk space that files of `all` bytes together need.
    fn need(&self, all: u64) -> u64 {
        match self.page_files {
            true => 3 * all + all / 8 + BESIDE.min(2 * all),
            false => all,
        }
    }
}

/// Creates and fills all files. A method that is not available becomes a case with an error.
fn cases(options: &Options, setup: &Setup) -> Result<(Vec<Case<Of>>, Facts), MeasureError> {
    let counting = CountingSystem::new(Arc::clone(&setup.system), |name| name.starts_with("map-"));
    let directory = counting
        .directory(&setup.path)
        .map_err(MeasureError::io("opening the directory"))?;
    let facts = directory
        .facts()
        .map_err(MeasureError::io("asking about the filesystem"))?;
    let in_flight = InFlight::new(DEPTH, facts.platform);
    let in_flight = Rc::new(in_flight.map_err(MeasureError::io("starting threads"))?);
    let kinds = if options.page_files { 3 } else { 1 };
    let mut filling = file::Filling::new(setup, kinds * options.sizes.iter().sum::<u64>());
    let mut cases = Vec::new();
    for &size in &options.sizes {
        let name = format!("map-{size}");
        let file = filling.raw(&*directory, &name, size)?;
        let mapping = (options.os.map)(&setup.path.join(&name), size);
        let mapping = mapping.map(|m| Rc::new(RefCell::new(m)));
        for method in MapMethod::ALL {
            let committer: Result<Box<dyn Committer>, MeasureError> = match method {
                MapMethod::CopyOnWrite | MapMethod::Logged if !options.page_files => continue,
                MapMethod::CopyOnWrite | MapMethod::Logged => {
                    match filling.page_file(method, size) {
                        Err(MeasureError::Interrupted) => return Err(MeasureError::Interrupted),
                        made => made,
                    }
                }
                MapMethod::MsyncAll | MapMethod::MsyncRanges => match &mapping {
                    Ok(m) => Ok(Box::new(method::Mapped::new(method, size, Rc::clone(m)))),
                    Err(e) => Err(MeasureError::NotOffered(e.to_string())),
                },
                _ => match refusal(facts.platform, method) {
                    Some(why) => Err(MeasureError::NotOffered(why.to_owned())),
                    None => Ok(Box::new(Raw {
                        method,
                        file: Arc::clone(&file),
                        in_flight: Rc::clone(&in_flight),
                        system: Arc::clone(&counting),
                    })),
                },
            };
            let (committer, error) = match committer {
                Ok(committer) => (Some(committer), None),
                Err(e) => (None, Some(e)),
            };
            let of = Of {
                size,
                method,
                committer,
            };
            cases.push(Case {
                error,
                ..Case::new(of)
            });
        }
    }
    Ok((cases, facts))
}

/// Returns the reason why an operating system does not have a method; `None` if it has it.
fn refusal(platform: Platform, method: MapMethod) -> Option<&'static str> {
    (method == MapMethod::InFlightThrough && platform == Platform::Macos).then_some(
        "macOS has no write that is durable by itself: O_DSYNC ends in the device's cache there",
    )
}

impl Of {
    /// Commits for the time of a slice, then does the work that the commits left for later.
    fn slice(
        &mut self,
        options: &Options,
        setup: &Setup,
        random: &mut Random,
    ) -> Result<MeasuredSlice, MeasureError> {
        let Some(committer) = &mut self.committer else {
            return Err(MeasureError::Interrupted);
        };
        let mut recorder = Recorder::new(Rc::clone(&setup.counters), setup.interrupt.clone());
        let limit = Limit {
            commits: u64::MAX,
            time: Some(options.slice),
        };
        recorder.begin_slice();
        let (before, calls) = ((options.os.times)(), committer.calls());
        let mut finishing = Duration::ZERO;
        recorder.timed(|laps| {
            while laps.more(&limit) {
                let pages = random.pages(options.pages, self.size / PAGE);
                committer.commit(&pages, random.0)?;
                laps.commit();
            }
            let start = Instant::now();
            committer.finish()?;
            finishing = start.elapsed();
            Ok(())
        })?;
        let times = before.zip((options.os.times)());
        setup.interrupt.check()?;
        let taken = MeasuredSlice::new(&recorder, committer.calls() - calls);
        Ok(taken.with_later(finishing).with_cpu(times))
    }
}

/// Generator (xorshift) of the pages that a commit changes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns `count` different pages in ascending order, never the first page of the file.
    fn pages(&mut self, count: u64, of: u64) -> Vec<u64> {
        let mut pages = BTreeSet::new();
        while (pages.len() as u64) < count.min(of - 1) {
            pages.insert(1 + self.next() % (of - 1));
        }
        pages.into_iter().collect()
    }
}

/// Returns one row for each case, with ratios to the sync of the whole mapping of the same size.
fn rows(cases: &[Case<Of>], facts: &Facts) -> Vec<Row> {
    let base = |size: u64| {
        let is_base = |c: &&Case<Of>| c.of.size == size && c.of.method == MapMethod::MsyncAll;
        cases.iter().find(is_base).map(|c| &c.series)
    };
    let row = |case: &Case<Of>| {
        let mut row = Row {
            file_bytes: case.of.size,
            method: case.of.method.into(),
            slices: Some(0),
            commits: Some(0),
            ..Row::of(Kind::Map)
        };
        match (&case.error, &case.of.committer) {
            (None, Some(committer)) => {
                fill(&mut row, &case.series, base(case.of.size));
                row.set_worth(committer.worth(facts).as_ref());
                // Our page files do not use the counting system, so their calls are unknown.
                if !case.of.method.is_ours() {
                    let (series, counts) = (&case.series, case.series.counts);
                    row.msyncs_per_commit = series.by_commit(counts.msyncs);
                    row.writes_per_commit = series.by_commit(counts.writes);
                    row.through_per_commit = series.by_commit(counts.through);
                    row.barriers_per_commit = series.by_commit(counts.barriers);
                }
            }
            (error, _) => row.error = error.as_ref().map(ToString::to_string),
        }
        row
    };
    cases.iter().map(row).collect()
}

/// Sets the measured figures, with ratios to `base`.
fn fill(row: &mut Row, series: &Series, base: Option<&Series>) {
    let system = series.cpu_us(|c| c.system);
    let base_system = base.and_then(|b| b.cpu_us(|c| c.system));
    row.slices = Some(series.points.len() as u64);
    row.commits = Some(series.commits());
    row.each = series.points.iter().map(SeriesPoint::ms).collect();
    row.set(Quantity::MsPerCommit, series.spread(|p| p.ms()));
    row.set(
        Quantity::Ratio,
        base.and_then(|b| series.ratio(b, |p| p.ms())),
    );
    row.set_latencies(&series.latencies);
    row.set_device(series.device, series.commits());
    row.set_cpu_wait(series.cpu_wait, series.time);
    row.system_us_per_commit = system;
    row.user_us_per_commit = series.cpu_us(|c| c.user);
    row.system_ratio = system
        .zip(base_system)
        .filter(|(_, base)| *base > 0.0)
        .map(|(own, base)| own / base);
}

#[cfg(test)]
mod tests;
