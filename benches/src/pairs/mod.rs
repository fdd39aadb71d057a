//! The library against a raw loop that does the same work by hand: pairs of slices, taking turns,
//! so that noise hits both, and the raw loop against itself beside them, so that the noise shows.
//! Then what has no raw counterpart: recovery and memory.

mod bulk;
pub mod child;
mod commits;
mod flags;
mod memory;
mod recovery;
pub mod report;

pub use flags::main;

use child::Child;
use logforce::{Method, disk::Facts};
use logforce_device::{Assessment, Directory};
use logforce_measure::library::{self, LogSetup, SharedLog};
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError};
use logforce_terminal::progress::Progress;
use report::Line;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Commits of 16 KiB and of 128 B by one thread.
    Commits,
    /// Many small records and one force.
    Bulk,
    /// Scanning and opening.
    Recovery,
    /// Resident memory.
    Memory,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 4] = [Part::Commits, Part::Bulk, Part::Recovery, Part::Memory];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Commits => "commits",
            Part::Bulk => "bulk",
            Part::Recovery => "recovery",
            Part::Memory => "memory",
        }
    }
}

/// What to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which parts, in our order.
    pub parts: Vec<Part>,
    /// Pairs of slices of commits.
    pub pairs: u32,
    /// Commits in a slice.
    pub slice: u64,
    /// Bytes that a bulk run appends.
    pub bulk: u64,
    /// Pairs of bulk runs.
    pub bulk_pairs: u32,
    /// Bytes of the log that is recovered.
    pub log: u64,
    /// Bytes that are written in records of 1 MiB to see how much memory that takes.
    pub memory: u64,
    /// The log's method; `None` for the library's default.
    pub method: Option<Method>,
}

/// What the comparison needs from outside.
pub struct Setup {
    /// An empty directory on the disk to measure.
    pub directory: Arc<dyn Directory>,
    /// Room there.
    pub space: Space,
    /// Starts this program again, for what needs a process of its own.
    pub child: Child,
    /// The flag that ends everything.
    pub interrupt: Interrupt,
    /// Receives progress.
    pub progress: Rc<dyn Progress>,
}

/// Results of the bench.
pub struct PairsOutcome {
    /// One line for each comparison.
    pub lines: Vec<Line>,
    /// How a force was done.
    pub method: Method,
    /// What a force was worth.
    pub assessment: Assessment,
    /// Whether the user interrupted.
    pub interrupted: bool,
}

/// What the parts share.
struct Bench<'a> {
    options: &'a Options,
    setup: &'a Setup,
    method: Method,
    assessment: Assessment,
    /// Write unit of the disk, bytes.
    unit: usize,
}

/// Compares.
pub fn run(options: &Options, setup: &Setup) -> Result<PairsOutcome, MeasureError> {
    let facts: Facts = library::facts(&*setup.directory)
        .map_err(MeasureError::io("asking about the filesystem"))?;
    let method = options
        .method
        .unwrap_or_else(|| library::default_method(&facts));
    let Some(assessment) = library::assess(&facts, method) else {
        return Err(MeasureError::NotOffered(format!(
            "{}: choose another --method",
            facts.why_not_offered(method)
        )));
    };
    check_space(options, setup.space)?;
    let bench = Bench {
        options,
        setup,
        method,
        assessment,
        unit: facts.write_unit() as usize,
    };
    let mut lines = Vec::new();
    for part in &options.parts {
        let result = match part {
            Part::Commits => commits::run(&bench, &mut lines),
            Part::Bulk => bulk::run(&bench, &mut lines),
            Part::Recovery => recovery::run(&bench, &mut lines),
            Part::Memory => memory::run(&bench, &mut lines),
        };
        match result {
            Ok(()) => {}
            _ if setup.interrupt.is_raised() => break,
            Err(e) => lines.push(Line::failed(part.name(), &e)),
        }
    }
    Ok(PairsOutcome {
        lines,
        method,
        assessment: bench.assessment,
        interrupted: setup.interrupt.is_raised(),
    })
}

fn check_space(options: &Options, space: Space) -> Result<(), MeasureError> {
    let need = options.parts.iter().map(|part| match part {
        Part::Commits | Part::Memory => (library::SEGMENTS + 1) * library::LONGEST_SEGMENT,
        Part::Bulk => options.bulk + 2 * bulk::segment_size(options.bulk),
        Part::Recovery => options.log + 3 * library::LONGEST_SEGMENT,
    });
    let remedies = "another --dir, or a smaller --bulk or --log";
    space.check(need.max().unwrap_or(0), remedies)
}

impl Bench<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.setup.directory.path().join(name)
    }

    fn log(&self, name: &str, segment_size: u64) -> SharedLog {
        let setup = LogSetup {
            path: self.path(name),
            method: self.method,
            guarantee: self.assessment.guarantee,
            segment_size,
        };
        let progress = Rc::clone(&self.setup.progress);
        SharedLog::new(setup, self.setup.interrupt.clone(), progress)
    }
}
