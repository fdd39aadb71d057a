//! Group commit: many threads that commit, and few that submit. The log beside a simple group
//! commit ([`baseline`]) and beside a raw loop of as many threads, in slices that take turns, so
//! that noise hits all of them. Then commits nobody waits for, and commits while segments are
//! being prepared.

pub mod baseline;
mod blocking;
mod preparing;
mod raw;
pub mod report;
mod series;
mod submit;
mod targets;

#[cfg(test)]
mod tests;

use crate::counters::CounterSource;
use crate::counting::{CountingSystem, Tally};
use crate::library::{self, LONGEST_SEGMENT, LogSetup, SEGMENTS, SharedLog};
use crate::progress::Progress;
use crate::space::Space;
use crate::subject::Limit;
use crate::{Interrupt, MeasureError, Recorder};
use logforce::{Facts, Method};
use logforce_device::{Assessment, Directory, System};
use report::Row;
use series::Taken;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use targets::Target;

/// Size of the file that the baseline and the raw loop write, bytes.
const FILE: u64 = 64 << 20;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Threads that wait for each of their commits.
    Commits,
    /// Threads that keep many commits under way.
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
    /// Records that they keep under way, all together.
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

/// What the comparison needs from outside.
pub struct Setup {
    /// Files, directories, time.
    pub system: Arc<dyn System>,
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// Room there.
    pub space: Space,
    /// The device's own counters.
    pub counters: Rc<dyn CounterSource>,
    /// The flag that ends everything.
    pub interrupt: Interrupt,
    /// Who is told how far it is.
    pub progress: Rc<dyn Progress>,
}

/// What came out.
pub struct Outcome {
    /// One row for each subject of each case.
    pub rows: Vec<Row>,
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
    setup: &'a Setup,
    system: Arc<CountingSystem>,
    directory: Arc<dyn Directory>,
    method: Method,
    assessment: Assessment,
    /// Write unit of the disk, bytes.
    unit: u64,
    /// Pairs in all parts.
    pairs: f64,
    done: std::cell::Cell<f64>,
}

/// Results as they come in.
#[derive(Default)]
struct Results {
    rows: Vec<Row>,
    targets: Vec<Target>,
}

/// Compares.
pub fn run(options: &Options, setup: &Setup) -> Result<Outcome, MeasureError> {
    // Segments have that name while they are written to, and not while they are prepared.
    let carries = |name: &str| name.ends_with(".seg") || name.starts_with("journal");
    let system = CountingSystem::new(Arc::clone(&setup.system), carries);
    let asking = || MeasureError::io("asking about the filesystem");
    let directory = system.directory(&setup.path).map_err(asking())?;
    let facts: Facts = directory.facts().map_err(asking())?;
    let method = options
        .method
        .unwrap_or_else(|| library::default_method(&facts));
    let Some(assessment) = library::assess(&facts, method) else {
        return Err(MeasureError::NotOffered(format!(
            "{}: choose another --method",
            facts.why_not_offered(method)
        )));
    };
    let need = options.parts.iter().map(|part| match part {
        Part::Commits => (SEGMENTS + 1) * LONGEST_SEGMENT + FILE,
        Part::Submit => (SEGMENTS + 1) * LONGEST_SEGMENT,
        Part::Preparing => preparing::space(options),
    });
    setup
        .space
        .check(need.max().unwrap_or(0), "another --dir")?;
    let bench = Bench {
        options,
        setup,
        system,
        directory,
        method,
        assessment,
        unit: u64::from(facts.write_unit()),
        pairs: pairs(options),
        done: std::cell::Cell::new(0.0),
    };
    let mut results = Results::default();
    for &part in &options.parts {
        let result = match part {
            Part::Commits => blocking::run(&bench, &mut results),
            Part::Submit => submit::run(&bench, &mut results),
            Part::Preparing => preparing::run(&bench, &mut results),
        };
        if setup.interrupt.is_raised() {
            break;
        }
        if let Err(e) = result {
            results.rows.push(Row::failed(part, &e));
        }
    }
    let interrupted = setup.interrupt.is_raised();
    if interrupted && results.rows.is_empty() {
        return Err(MeasureError::Interrupted);
    }
    Ok(Outcome {
        rows: results.rows,
        targets: results.targets,
        method,
        assessment: bench.assessment,
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
    fn log(&self, name: &str, segment_size: u64) -> SharedLog {
        let setup = LogSetup {
            path: self.setup.path.join(name),
            method: self.method,
            guarantee: self.assessment.guarantee,
            segment_size,
        };
        let progress = Rc::clone(&self.setup.progress);
        let system = Arc::clone(&self.system);
        SharedLog::new(setup, self.setup.interrupt.clone(), progress).through(system)
    }

    /// Measures pairs until there are enough, or until the user has had enough: what was begun and
    /// not ended then is no pair. Told how far it is in the words of `doing`.
    fn each_pair(
        &self,
        doing: &str,
        mut pair: impl FnMut(u32) -> Result<(), MeasureError>,
    ) -> Result<(), MeasureError> {
        let progress = &self.setup.progress;
        for nth in 0..self.options.pairs {
            progress.doing(&format!("{doing}: pair {}", nth + 1));
            progress.fraction(self.done.get() / self.pairs);
            pair(nth)?;
            self.done.set(self.done.get() + 1.0);
        }
        Ok(())
    }

    /// One slice. `body` is called until the time is over; what it counts goes to the tally.
    fn slice(
        &self,
        mut body: impl FnMut(&Limit, &mut Recorder, &mut Tally) -> Result<(), MeasureError>,
    ) -> Result<Taken, MeasureError> {
        let interrupt = self.setup.interrupt.clone();
        let mut recorder = Recorder::new(Rc::clone(&self.setup.counters), interrupt);
        let limit = Limit {
            commits: u64::MAX,
            time: Some(self.options.slice),
        };
        let mut tally = Tally::default();
        recorder.begin_slice();
        while recorder.more(&limit) {
            body(&limit, &mut recorder, &mut tally)?;
        }
        self.setup.interrupt.check()?;
        Ok(Taken::new(&recorder, tally))
    }

    /// Counts what goes to the device meanwhile.
    fn counted<T>(
        &self,
        tally: &mut Tally,
        body: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<T, MeasureError> {
        let before = self.system.tally();
        let result = body();
        *tally += self.system.tally() - before;
        result
    }

    /// One slice of commits through a log, which goes on where the last one ended.
    fn log_slice(
        &self,
        shared: &mut SharedLog,
        record: &[u8],
        threads: u32,
        room: u64,
    ) -> Result<Taken, MeasureError> {
        let taken = self.slice(|limit, recorder, tally| {
            let log = shared.ready()?;
            let job = library::Job {
                log: &log,
                record,
                threads,
                until: log.tail_lsn().plus(room),
            };
            let last = self.counted(tally, || job.together(limit, recorder))?;
            shared.used_to(last);
            Ok(())
        })?;
        // No segment is prepared in another's slice.
        shared.ready()?;
        Ok(taken)
    }
}

/// Bytes that no device can compress or share.
fn record(bytes: u64) -> Vec<u8> {
    let mut record = vec![0; usize::try_from(bytes).unwrap_or(0)];
    crate::prepare::scramble(&mut record, 0x6e09);
    record
}
