//! The scenario `map`: small commits to a large file of pages. Mapped and synced by `msync`, written in
//! sorted runs and forced, or through our own page files; by the wall clock and by the processor time
//! that the system takes, and how both grow with the size of the file.

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
use crate::result::legend::warned;
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Quantity, Row};
use crate::run::counting::CountingSystem;
use crate::run::in_flight::{DEPTH, InFlight};
use crate::run::rounds::{self, Case};
use crate::run::{Limit, MeasuredSlice, Series, Setup};
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

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The largest file is so many times the smallest; one lies between.
pub const SIZES: [u64; 3] = [16, 4, 1];

/// The smallest size: pages for the smallest of the three files.
pub const LEAST: u64 = 16 << 20;

/// Beside the three kinds of files: their tables, and the log of the logged one.
const BESIDE: u64 = 1 << 30;

/// A file mapped into memory.
pub trait Mapping {
    /// Copies bytes to an offset.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()>;
    /// Makes ranges durable.
    fn sync(&mut self, ranges: &[Range<u64>]) -> std::io::Result<()>;
}

/// What the operating system is asked for beside files.
#[derive(Debug, Clone, Copy)]
pub struct Os {
    /// Maps the first bytes of a file.
    pub map: fn(&Path, u64) -> std::io::Result<Box<dyn Mapping>>,
    /// Processor time until now; `None` if the system does not say.
    pub times: fn() -> Option<CpuTimes>,
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sizes of the files, bytes, in ascending order.
    pub sizes: Vec<u64>,
    /// Pages that a commit changes, beside the one that makes them count.
    pub pages: u64,
    /// Slices of each case.
    pub rounds: u32,
    /// How long a slice takes.
    pub slice: Duration,
    /// Whether the library makes its page files there; without, their rows are left out.
    pub page_files: bool,
    /// Mapping, processor time.
    pub os: Os,
}

/// One size by one method.
struct Of {
    size: u64,
    method: MapMethod,
    /// `None` where it cannot be had.
    committer: Option<Box<dyn Committer>>,
}

impl Scenario for Options {
    const KIND: Kind = Kind::Map;
    type More = ();

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome, MeasureError> {
        let remedies = "another --dir, or a smaller --size";
        setup.space.check(self.need(), remedies)?;
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

    fn text(&self, document: &Document, width: usize) -> String {
        text::text(document, width)
    }
}

impl Options {
    /// Bytes of disk that files of these sizes need.
    fn need(&self) -> u64 {
        let all: u64 = self.sizes.iter().sum();
        match self.page_files {
            true => 3 * all + all / 8 + BESIDE.min(2 * all),
            false => all,
        }
    }
}

/// Makes and fills all files. What cannot be had is a case with an error.
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

/// Why a system has no such method.
fn refusal(platform: Platform, method: MapMethod) -> Option<&'static str> {
    (method == MapMethod::InFlightThrough && platform == Platform::Macos).then_some(
        "macOS has no write that is durable by itself: O_DSYNC ends in the device's cache there",
    )
}

impl Of {
    /// Commits for the time of a slice, and what they leave to be done later.
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

/// A generator (xorshift) of which pages a commit changes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// So many different pages, in ascending order, none of them the first of the file.
    fn pages(&mut self, count: u64, of: u64) -> Vec<u64> {
        let mut pages = BTreeSet::new();
        while (pages.len() as u64) < count.min(of - 1) {
            pages.insert(1 + self.next() % (of - 1));
        }
        pages.into_iter().collect()
    }
}

/// One row for each case, with its ratios to the sync of the whole mapping of the same size.
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
                // The calls of our page files are not made through what counts.
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

/// Sets what was measured; ratios are to `base`.
fn fill(row: &mut Row, series: &Series, base: Option<&Series>) {
    let system = series.cpu_us(|c| c.system);
    let base_system = base.and_then(|b| b.cpu_us(|c| c.system));
    row.slices = Some(series.points.len() as u64);
    row.commits = Some(series.commits());
    row.set(Quantity::MsPerCommit, series.spread(|p| p.ms()));
    row.set(
        Quantity::Ratio,
        base.and_then(|b| series.ratio(b, |p| p.ms())),
    );
    row.set_latencies(&series.latencies);
    row.set_device(series.device, series.commits());
    row.system_us_per_commit = system;
    row.user_us_per_commit = series.cpu_us(|c| c.user);
    row.system_ratio = system
        .zip(base_system)
        .filter(|(_, base)| *base > 0.0)
        .map(|(own, base)| own / base);
}

#[cfg(test)]
mod tests;
