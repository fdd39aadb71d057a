//! The library compared with a raw loop that does the same work by hand. Slices of both take turns, so
//! that noise affects both. The raw loop is also compared with itself, which shows the noise. Recovery
//! and memory are measured without a raw counterpart.

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
    /// All parts.
    pub const ALL: [Part; 4] = [Part::Commits, Part::Bulk, Part::Recovery, Part::Memory];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Commits => "commits",
            Part::Bulk => "bulk",
            Part::Recovery => "recovery",
            Part::Memory => "memory",
        }
    }
}

/// Options of the comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parts to run, in the order of [`Part::ALL`].
    pub parts: Vec<Part>,
    /// Pairs of slices of commits.
    pub pairs: u32,
    /// Commits in a slice.
    pub slice: u64,
    /// Bytes that a bulk run appends.
    pub bulk: u64,
    /// Pairs of bulk runs.
    pub bulk_pairs: u32,
    /// Size of the log that is recovered, bytes.
    pub log: u64,
    /// Bytes written in records of 1 MiB when memory is measured.
    pub memory: u64,
    /// The log's method; `None` for the library's default.
    pub method: Option<Method>,
}

/// Resources of the comparison.
pub struct Setup {
    /// An empty directory on the disk to measure.
    pub directory: Arc<dyn Directory>,
    /// Free space there.
    pub space: Space,
    /// Starts this program again for the measurements in a child process.
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
    /// Method used for forces.
    pub method: Method,
    /// Guarantee of a force, and how well it is established.
    pub assessment: Assessment,
    /// True if the user interrupted.
    pub interrupted: bool,
}

/// State shared by the parts.
struct Bench<'a> {
    options: &'a Options,
    setup: &'a Setup,
    method: Method,
    assessment: Assessment,
    /// Write unit of the disk, bytes.
    unit: usize,
}

/// Runs the comparison.
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
