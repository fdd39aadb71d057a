//! The scenario `map`: small commits to a large file of pages. Mapped and synced by `msync`, written in
//! sorted runs and forced, or through our own page files; by the wall clock and by the processor time
//! that the system takes, and how both grow with the size of the file.

mod conclusion;
mod file;
mod method;
mod published;
pub mod report;
mod series;

pub use conclusion::conclude;
pub use method::MapMethod;
pub use published::P4;

use crate::counting::CountingSystem;
use crate::in_flight::{DEPTH, InFlight};
use crate::numbers::bytes;
use crate::{MeasureError, Recorder};
use logforce_device::{Facts, Platform, System as _};
use method::{Committer, Raw};
use report::Row;
use series::{Point, Series};
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

/// Processor time of this process, all threads together.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    /// In its own code.
    pub user: Duration,
    /// In the system.
    pub system: Duration,
}

/// What the operating system is asked for beside files.
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
}

/// What is needed from outside.
pub struct Setup {
    /// What every scenario needs.
    pub base: crate::group::Setup,
    /// Whether the library makes its page files there; without, their rows are left out.
    pub page_files: bool,
    /// Mapping, processor time.
    pub os: Os,
}

/// What came out.
pub struct Outcome {
    /// A row for each size and method.
    pub rows: Vec<Row>,
    /// Pages that a commit changes.
    pub pages: u64,
    /// Whether the user interrupted: rows hold the rounds that were whole until then.
    pub interrupted: bool,
}

/// One size by one method.
struct Case {
    size: u64,
    method: MapMethod,
    committer: Result<Box<dyn Committer>, MeasureError>,
    facts: Rc<Facts>,
    series: Series,
}

/// Bytes of disk that files of these sizes need.
fn need(options: &Options, page_files: bool) -> u64 {
    let all: u64 = options.sizes.iter().sum();
    match page_files {
        true => 3 * all + all / 8 + BESIDE.min(2 * all),
        false => all,
    }
}

/// Measures.
pub fn run(options: &Options, setup: Setup) -> Result<Outcome, MeasureError> {
    setup.base.space.check(
        need(options, setup.page_files),
        "another --dir, or a smaller --size",
    )?;
    let mut cases = cases(options, &setup)?;
    let ended = rounds(options, &setup, &mut cases);
    let interrupted = setup.base.interrupt.is_raised();
    let has_rounds = cases.iter().any(|c| !c.series.points.is_empty());
    if interrupted && !has_rounds {
        return Err(MeasureError::Interrupted);
    }
    if !interrupted {
        ended?;
    }
    Ok(Outcome {
        rows: rows(&cases),
        pages: options.pages,
        interrupted,
    })
}

/// Makes and fills all files. What cannot be had is a case with an error.
fn cases(options: &Options, setup: &Setup) -> Result<Vec<Case>, MeasureError> {
    let counting = CountingSystem::new(Arc::clone(&setup.base.system), |name| {
        name.starts_with("map-")
    });
    let directory = counting
        .directory(&setup.base.path)
        .map_err(MeasureError::io("opening the directory"))?;
    let facts = directory
        .facts()
        .map_err(MeasureError::io("asking about the filesystem"))?;
    let facts = Rc::new(facts);
    let in_flight = InFlight::new(DEPTH, facts.platform);
    let in_flight = Rc::new(in_flight.map_err(MeasureError::io("starting threads"))?);
    let kinds = if setup.page_files { 3 } else { 1 };
    let mut filling = file::Filling::new(setup, kinds * options.sizes.iter().sum::<u64>());
    let mut cases = Vec::new();
    for &size in &options.sizes {
        let name = format!("map-{size}");
        let file = filling.raw(&*directory, &name, size)?;
        let mapping = (setup.os.map)(&setup.base.path.join(&name), size);
        let mapping = mapping.map(|m| Rc::new(RefCell::new(m)));
        for method in MapMethod::ALL {
            let committer: Result<Box<dyn Committer>, MeasureError> = match method {
                MapMethod::CopyOnWrite | MapMethod::Logged if !setup.page_files => continue,
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
            cases.push(Case {
                size,
                method,
                committer,
                facts: Rc::clone(&facts),
                series: Series::default(),
            });
        }
    }
    Ok(cases)
}

/// Why a system has no such method.
fn refusal(platform: Platform, method: MapMethod) -> Option<&'static str> {
    (method == MapMethod::InFlightThrough && platform == Platform::Macos).then_some(
        "macOS has no write that is durable by itself: O_DSYNC ends in the device's cache there",
    )
}

fn rounds(options: &Options, setup: &Setup, cases: &mut [Case]) -> Result<(), MeasureError> {
    let count = cases.len();
    let all = f64::from(options.rounds) * count as f64;
    let (mut done, mut random) = (0.0, Random(0x6d61_7021));
    for round in 0..options.rounds {
        let first = count * round as usize / options.rounds as usize;
        let mut taken = Vec::new();
        taken.resize_with(count, || None);
        for nth in 0..count {
            let index = (first + nth) % count;
            let case = &mut cases[index];
            let what = format!("{}, {}", bytes(case.size), case.method);
            setup.base.progress.doing(&what);
            setup.base.progress.fraction(done / all);
            done += 1.0;
            if case.committer.is_err() {
                continue;
            }
            match case.slice(options, setup, &mut random) {
                Ok(point) => taken[index] = Some(point),
                Err(MeasureError::Interrupted) => return Err(MeasureError::Interrupted),
                Err(e) => case.committer = Err(e),
            }
        }
        for (case, point) in cases.iter_mut().zip(taken) {
            case.series.points.extend(point);
        }
    }
    Ok(())
}

impl Case {
    /// Commits for the time of a slice, and what they leave to be done later.
    fn slice(
        &mut self,
        options: &Options,
        setup: &Setup,
        random: &mut Random,
    ) -> Result<Point, MeasureError> {
        let Ok(committer) = &mut self.committer else {
            return Err(MeasureError::Interrupted);
        };
        let mut recorder = Recorder::new(
            Rc::clone(&setup.base.counters),
            setup.base.interrupt.clone(),
        );
        let limit = crate::Limit {
            commits: u64::MAX,
            time: Some(options.slice),
        };
        recorder.begin_slice();
        let (before, calls) = ((setup.os.times)(), committer.calls());
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
        let times = before.zip((setup.os.times)());
        setup.base.interrupt.check()?;
        Ok(Point::new(
            &recorder,
            finishing,
            times,
            committer.calls() - calls,
        ))
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
fn rows(cases: &[Case]) -> Vec<Row> {
    let base = |size: u64| {
        let is_base = |c: &&Case| c.size == size && c.method == MapMethod::MsyncAll;
        cases.iter().find(is_base).map(|c| &c.series)
    };
    cases
        .iter()
        .map(|case| {
            let row = match &case.committer {
                Err(e) => Row::failed(e),
                Ok(committer) => Row::measured(
                    &case.series,
                    base(case.size),
                    committer.worth(&case.facts).as_ref(),
                ),
            };
            row.of(case.size, case.method)
        })
        .collect()
}

#[cfg(test)]
mod tests;
