//! The scenario `journal --sweep`: every method with 1 to 32 writes in flight, in chunks of 512 B to
//! 256 KiB. Threads keep the writes in flight and, if available, `io_uring`. The scenario finds the number
//! of writes in flight up to which more of them pay, and the best chunk size.

mod cell;
mod conclusion;
mod knee;
mod plan;
mod row;
mod submission;
mod text;

pub use conclusion::{Recommended, conclude};
pub use knee::{DepthPoint, Finding, KneeResult, knee};
pub use submission::{Queue, Unit, Way};

use super::journal::notes::counters;
use super::journal::row::row as single_row;
use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::MeasureError;
use crate::result::legend::Shown;
use crate::result::machine::Machine;
use crate::result::plausible;
use crate::result::{Document, Kind, Row};
use crate::run::Setup;
use crate::run::counters::{Neighbours, watch_neighbours};
use crate::run::counting::{CallCounts, CountingSystem};
use crate::run::library;
use crate::run::prepare::PreparedFile;
use crate::run::probe::{self, ProbeContext};
use crate::run::schedule::{self, Budget, Context, Measured, Planned};
use crate::run::space::{self, Wish};
use cell::{Cell, Shared};
use logforce_device::{Access, Directory, Facts, FileState, Method, OpenFile, System, Verdict};
use plan::Plan;
use std::cell::{Cell as Slot, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Name of the scenario in its rows.
pub const NAME: &str = "sweep";

/// Number of slices of each cell.
pub const ROUNDS: u32 = 5;
/// Default of [`Options::least_slice`]. Slices of two or three writes would be noise.
pub const LEAST_SLICE: Duration = Duration::from_millis(15);
/// Default numbers of writes in flight.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Default chunk sizes, bytes.
pub const CHUNKS: [u64; 10] = [
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
];
/// Share of the whole time that may go into filling the file.
const PREPARE_SHARE: f64 = 0.2;
/// Chunk size at which methods are compared, bytes; otherwise the nearest one that is measured.
const USUAL_CHUNK: u64 = 16 << 10;

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Methods, in the order of the report.
    pub methods: Vec<Method>,
    /// Numbers of writes in flight, ascending.
    pub depths: Vec<u32>,
    /// Chunk sizes in bytes, ascending.
    pub chunks: Vec<u64>,
    /// Size of the file, which is filled beforehand, bytes.
    pub size: u64,
    /// Time for the whole run, preparation included.
    pub time: Duration,
    /// Minimum length of a slice. If the time does not suffice, cells are left out.
    pub least_slice: Duration,
    /// Number of writes, or groups, of each cell, however long they take; `None` to divide the time
    /// instead. Tests use this to get exact counts.
    pub writes: Option<u64>,
}

/// Results beside the cells.
pub struct Sweep {
    /// Ways to keep writes in flight, each with its guarantee.
    pub methods: Vec<Row>,
    /// Knees of each way and chunk size that has a figure.
    pub knees: Vec<Row>,
    /// Method that the conclusion is about.
    pub recommended: Recommended,
    /// Chunk size at which methods are compared, bytes.
    pub usual_chunk: u64,
    /// Work of other processes on the device before the run.
    pub neighbours: Option<Neighbours>,
}

impl Scenario for Options {
    const KIND: Kind = Kind::Sweep;
    type More = Sweep;

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Sweep>, MeasureError> {
        run(self, setup)
    }

    fn conclude(&self, outcome: &ScenarioOutcome<Sweep>, _: &Machine) -> Conclusion {
        Conclusion {
            text: conclude(&outcome.rows, &outcome.more),
            recommended: outcome.more.recommended.method,
        }
    }

    fn notes(&self, outcome: &ScenarioOutcome<Sweep>) -> Vec<String> {
        let rows = &outcome.rows;
        let flushes_counted = rows.iter().any(|r| r.device_flushes_per_chunk.is_some());
        let mut notes = outcome.notes.clone();
        notes.extend(row::guarantees(&outcome.more.methods));
        notes.extend(counters(outcome.more.neighbours, flushes_counted));
        notes.extend(row::missing(rows));
        notes
    }

    fn add(sweep: Sweep, document: &mut Document) {
        document.methods = sweep.methods;
        document.knees = sweep.knees;
        document.usual_chunk_bytes = sweep.usual_chunk;
    }

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, shown, width)
    }
}

fn run(options: &Options, setup: &Setup) -> Result<ScenarioOutcome<Sweep>, MeasureError> {
    let start = Instant::now();
    let system = CountingSystem::new(Arc::clone(&setup.system), |name| {
        name.starts_with("journal")
    });
    let asking = || MeasureError::io("asking about the filesystem");
    let directory = system.directory(&setup.path).map_err(asking())?;
    let facts = library::facts(&*directory).map_err(asking())?;
    let longest = options.chunks.iter().copied().max().unwrap_or(USUAL_CHUNK);
    let wish = Wish {
        size: options.size,
        chunk: longest,
        files: 1,
        beside: 0,
        least_beside: 0,
        exact: false,
        fillable: None,
    };
    // Checks the space before anything is written.
    let (size, _) = space::choose(wish, setup.space)?;
    let deepest = options.depths.iter().copied().max().unwrap_or(1);
    let has_queue = offers_queue(&*directory, &facts, deepest as usize)?;
    let plan = Plan::new(options, &facts, size, has_queue);
    setup.progress.announce(&plan.sentences(options));
    let neighbours = watch_neighbours(&*setup.counters, watch_time(options.time));
    let place = ProbeContext {
        directory: &*directory,
        interrupt: &setup.interrupt,
        progress: &*setup.progress,
    };
    let rate = match probe::rate(&place, size, options.time) {
        Ok(rate) => rate,
        Err(MeasureError::Interrupted) => return Err(MeasureError::Interrupted),
        // Cells whose writes fail report that; others may still be measured.
        Err(_) => None,
    };
    let fillable = rate.map(|r| (r * options.time.as_secs_f64() * PREPARE_SHARE) as u64);
    let (size, shrunk) = space::choose(Wish { fillable, ..wish }, setup.space)?;
    let plan = Plan::new(options, &facts, size, has_queue);

    let unit = u64::from(facts.write_unit());
    let file = PreparedFile::new(
        Arc::clone(&directory),
        // The state of a segment that a log reuses: writes change no metadata.
        FileState::Recycled,
        size,
        unit as usize,
        setup.interrupt.clone(),
        Rc::clone(&setup.progress),
    );
    let shared = Rc::new(Shared {
        file: RefCell::new(file),
        system,
        unit,
        platform: facts.platform,
        number: AtomicU64::new(1),
    });
    if !plan.order.is_empty() {
        shared.file.borrow_mut().ensure(1)?;
    }
    let budget = Budget {
        rounds: ROUNDS,
        commits: options.writes.unwrap_or(u64::MAX),
        deadline: options.writes.is_none().then(|| start + options.time),
        each_once: false,
        write_back: rate,
    };
    let (subjects, counts) = subjects(&plan, &shared);
    let (measured, interrupted) = schedule::run(subjects, budget, &Context::of(setup));
    if interrupted && measured.iter().all(|m| m.recorder.commits() == 0) {
        return Err(MeasureError::Interrupted);
    }

    let results = Results {
        plan: &plan,
        measured,
        counts,
    };
    let (rows, sweep) = results.rows(&facts);
    let mut notes = how_measured(options, &plan, size, start.elapsed(), has_queue, &facts);
    notes.extend(shrunk.map(|s| format!("{s}.")));
    notes.extend(plausible::rotation_note(&facts));
    Ok(ScenarioOutcome {
        rows,
        notes,
        interrupted,
        more: Sweep {
            neighbours,
            ..sweep
        },
    })
}

fn watch_time(time: Duration) -> Duration {
    Duration::from_millis(250).min(time / 40)
}

/// Returns whether the system can keep several writes of one thread in flight, on a file opened for direct
/// I/O.
fn offers_queue(dir: &dyn Directory, facts: &Facts, depth: usize) -> Result<bool, MeasureError> {
    const NAME: &str = "queue";
    if facts.direct.is_none() {
        return Ok(false);
    }
    let failed = |what: &str| MeasureError::io(format!("{what} {}", dir.path().display()));
    let how = OpenFile {
        access: Access::CreateNew,
        direct: true,
    };
    let offered = {
        let file = dir.open(NAME, how).map_err(failed("making a file in"))?;
        file.write_queue(depth).is_some()
    };
    dir.remove(NAME).map_err(failed("removing a file in"))?;
    Ok(offered)
}

/// Calls that each cell makes.
type Counts = Vec<Rc<Slot<CallCounts>>>;

fn subjects(plan: &Plan, shared: &Rc<Shared>) -> (Vec<Planned>, Counts) {
    let mut counts = Vec::new();
    let mut subjects = Vec::new();
    for &number in &plan.order {
        let cell = &plan.cells[number];
        let planned = plan.ways.iter().find(|w| w.way == cell.way);
        let Some(assessment) = planned.and_then(|p| p.assessment.clone()) else {
            continue;
        };
        let count = Rc::new(Slot::new(CallCounts::default()));
        subjects.push(Planned::Run(Box::new(Cell::new(
            cell.way,
            cell.chunk,
            cell.depth,
            assessment,
            Rc::clone(shared),
            Rc::clone(&count),
        ))));
        counts.push(count);
    }
    (subjects, counts)
}

/// Measurements, in the order in which they were made.
struct Results<'a> {
    plan: &'a Plan,
    measured: Vec<Measured>,
    counts: Counts,
}

impl Results<'_> {
    fn rows(&self, facts: &Facts) -> (Vec<Row>, Sweep) {
        let singles = self.singles(facts);
        let mut methods: Vec<Row> = self
            .plan
            .ways
            .iter()
            .map(|w| row::method(w.way, w.assessment.as_ref(), w.reason.clone()))
            .collect();
        // A guarantee that is implausible for single writes is implausible for several in flight.
        for doubted in singles
            .iter()
            .filter(|r| r.verdict == Some(Verdict::Implausible))
        {
            for method in methods.iter_mut().filter(|m| m.method == doubted.method) {
                method.verdict = doubted.verdict;
                method.evidence.clone_from(&doubted.evidence);
            }
        }
        let rows: Vec<Row> = self
            .plan
            .cells
            .iter()
            .enumerate()
            .map(|(number, cell)| {
                let of = methods.iter().find(|m| cell.way.is_of(m));
                match (self.measured(number), of) {
                    (Some((measured, counts)), Some(method)) => {
                        row::cell(cell.way, measured, counts, method)
                    }
                    _ => row::failed(cell.way, cell.chunk, cell.depth, cell.reason.clone()),
                }
            })
            .collect();
        let usual_chunk = self.plan.usual_chunk;
        let usual: Vec<Row> = singles
            .into_iter()
            .filter(|r| r.bytes == usual_chunk)
            .collect();
        let sweep = Sweep {
            recommended: Recommended::new(&usual, &methods, facts),
            methods,
            knees: row::knees(&rows),
            usual_chunk,
            neighbours: None,
        };
        (rows, sweep)
    }

    fn measured(&self, number: usize) -> Option<(&Measured, CallCounts)> {
        let at = self.plan.order.iter().position(|n| *n == number)?;
        Some((self.measured.get(at)?, self.counts.get(at)?.get()))
    }

    /// Returns the rows of single writes by one thread, like those of `bench journal`, with
    /// implausible ones marked.
    fn singles(&self, facts: &Facts) -> Vec<Row> {
        let is_single = |number: usize| {
            let cell = &self.plan.cells[number];
            cell.depth == 1 && cell.way.queue == Queue::Threads
        };
        // In the order of the report, so that the conclusion does not depend on the measuring order.
        let numbers = (0..self.plan.cells.len()).filter(|n| is_single(*n));
        let mut rows: Vec<Row> = numbers
            .filter_map(|n| Some(single_row(self.measured(n)?.0)))
            .collect();
        plausible::judge(&mut rows, facts);
        rows
    }
}

fn how_measured(
    options: &Options,
    plan: &Plan,
    size: u64,
    took: Duration,
    has_queue: bool,
    facts: &Facts,
) -> Vec<String> {
    use logforce_terminal::numbers::{bytes, count};
    let mut notes = vec![format!(
        "{} with {ROUNDS} slices each, taking turns. Writes go to consecutive positions of one file of {}, \
         which was filled and synced before, so that no metadata is written. Took {:.1} s of the {:.0} s \
         allowed by --seconds.",
        count(plan.order.len() as u64, "cell"),
        bytes(size),
        took.as_secs_f64(),
        options.time.as_secs_f64().max(1.0)
    )];
    notes.extend(plan.too_little_time(options));
    notes.push(
        "N in flight. Write-through methods, and those that force nothing: N independent writes at any \
         time, either by N threads that each wait for their write, or by one thread with io_uring. Methods \
         with a barrier: a group of N writes, and once all of them have ended, one barrier that makes them \
         durable. Writes into the system's cache are made one after the other, because they do not wait \
         for a device."
            .to_owned(),
    );
    if !has_queue {
        let why = match facts.direct {
            Some(_) => "this system has no io_uring for files, or does not permit it here",
            None => "io_uring needs direct I/O, which is not available here",
        };
        notes.push(format!("No io_uring variants: {why}."));
    }
    notes
}

#[cfg(test)]
mod tests;
