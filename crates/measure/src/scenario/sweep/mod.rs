//! The scenario `journal`, swept: every method with 1 to 32 writes in flight, in chunks of 512 B to
//! 256 KiB, by threads and, where the system has it, by `io_uring`. Up to which depth do more writes
//! in flight pay, and which chunk carries most?

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

/// Slices of each cell.
pub const ROUNDS: u32 = 5;
/// As [`Options::least_slice`], where nothing else is wanted: a slice of two or three writes says
/// nothing.
pub const LEAST_SLICE: Duration = Duration::from_millis(15);
/// Writes in flight, where nothing else is asked for.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Bytes of a chunk, where nothing else is asked for.
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
/// Of the whole time, what may go into filling the file.
const PREPARE_SHARE: f64 = 0.2;
/// Methods are held against each other in chunks of this size, or of the nearest one there is.
const USUAL_CHUNK: u64 = 16 << 10;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Methods, in the order of the report.
    pub methods: Vec<Method>,
    /// Writes in flight, ascending.
    pub depths: Vec<u32>,
    /// Bytes of a chunk, ascending.
    pub chunks: Vec<u64>,
    /// Bytes of the file, which is filled beforehand.
    pub size: u64,
    /// How long all of it may take, preparing included.
    pub time: Duration,
    /// A slice is no shorter than this; where there is no time for that, cells are left out.
    pub least_slice: Duration,
    /// So many writes, or groups, of each cell, however long they take: for those who count.
    pub writes: Option<u64>,
}

/// Results beside the cells.
pub struct Sweep {
    /// Each way to have writes in flight, and what it is worth.
    pub methods: Vec<Row>,
    /// Of each way and chunk that has a figure.
    pub knees: Vec<Row>,
    /// What the conclusion speaks of.
    pub recommended: Recommended,
    /// Chunks by which methods are held against each other, bytes.
    pub usual_chunk: u64,
    /// What others did to the device before.
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

    fn text(&self, document: &Document, width: usize) -> String {
        text::text(document, width)
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
        exact: false,
        fillable: None,
    };
    // Before anything is written: is there room at all?
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
        // The cells whose writes fail say so; others may be measured.
        Err(_) => None,
    };
    let fillable = rate.map(|r| (r * options.time.as_secs_f64() * PREPARE_SHARE) as u64);
    let (size, shrunk) = space::choose(Wish { fillable, ..wish }, setup.space)?;
    let plan = Plan::new(options, &facts, size, has_queue);

    let unit = u64::from(facts.write_unit());
    let file = PreparedFile::new(
        Arc::clone(&directory),
        // The state of a segment that a log uses again: no metadata is written.
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
        pattern: Shared::pattern(longest),
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

/// Whether the system keeps writes of one thread in flight, on a file that is open for direct I/O.
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

/// What each cell hands to the system.
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

/// What was measured, in the order in which it was.
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
        // What a single write shows to be untrue is untrue with many in flight.
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

    /// Writes one at a time by a thread, as `bench journal` has them, judged by what was measured.
    fn singles(&self, facts: &Facts) -> Vec<Row> {
        let is_single = |number: usize| {
            let cell = &self.plan.cells[number];
            cell.depth == 1 && cell.way.queue == Queue::Threads
        };
        // In the order of the report, so that what is said of them does not depend on what came first.
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
        "{}, {ROUNDS} slices of each, which take turns; consecutive places of one file of {}, which was \
         filled and synced before, so that no metadata is written. Took {:.1} s of the {:.0} s there were \
         (--seconds).",
        count(plan.order.len() as u64, "cell"),
        bytes(size),
        took.as_secs_f64(),
        options.time.as_secs_f64().max(1.0)
    )];
    notes.extend(plan.too_little_time(options));
    notes.push(
        "N in flight. Of write-through methods, and those that force nothing: N writes at any time, each \
         by itself; threads wait for theirs, io_uring has them all from one thread. Of methods with a \
         barrier: N writes, all of them ended, then one barrier that makes the N durable (a group); \
         writes into the system's cache are made one after the other, as they wait for no device."
            .to_owned(),
    );
    if !has_queue {
        let why = match facts.direct {
            Some(_) => "this system has none for files, or does not permit it here",
            None => "it would need direct I/O, which is not offered here",
        };
        notes.push(format!("No io_uring variants: {why}."));
    }
    notes
}

#[cfg(test)]
mod tests;
