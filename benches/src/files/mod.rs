//! Durable files (`logforce::file`) beside one `fdatasync` per commit, beside a group commit written by hand
//! ([`by_hand`]), and for records beside the baseline of the bench `group`. All subjects and all numbers of
//! threads take turns, with the same bytes per commit.

pub mod by_hand;
mod case;
mod flags;
pub mod report;
mod round;
mod targets;
mod work;

pub use case::Subject;
pub use flags::main;

use crate::target::Target;
use logforce::Method;
use logforce_device::Assessment;
use logforce_measure::MeasureError;
use logforce_measure::group::{Setup, Slices};
use report::FileRow;
use std::time::Duration;

/// Size of each file, bytes.
const FILE: u64 = 64 << 20;
/// Size of a slot, bytes.
const BLOCK: u64 = 4096;
/// Size of an appended record, bytes.
const RECORD: u64 = 128;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Each thread overwrites blocks of 4 KiB in a separate region, through the system's cache.
    Slots,
    /// The same in an aligned file, past the system's cache where the filesystem can.
    Aligned,
    /// Records of 128 bytes at increasing offsets, through the system's cache.
    Append,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 3] = [Workload::Slots, Workload::Aligned, Workload::Append];

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Slots => "slots",
            Workload::Aligned => "aligned",
            Workload::Append => "append",
        }
    }

    /// Returns the bytes of a commit.
    fn size(self) -> u64 {
        match self {
            Workload::Slots | Workload::Aligned => BLOCK,
            Workload::Append => RECORD,
        }
    }
}

/// Options of the comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Workloads, in the order of [`Workload::ALL`].
    pub workloads: Vec<Workload>,
    /// Subjects, in the order of [`Subject::ALL`].
    pub subjects: Vec<Subject>,
    /// Numbers of committing threads, each once.
    pub threads: Vec<u32>,
    /// Number of rounds; each has one slice of every subject with every number of threads.
    pub rounds: u32,
    /// Duration of a slice.
    pub slice: Duration,
    /// Method of the durable files; `None` for the library's default.
    pub method: Option<Method>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workloads: Workload::ALL.to_vec(),
            subjects: Subject::ALL.to_vec(),
            threads: vec![1, 16, 64],
            rounds: 20,
            slice: Duration::from_millis(250),
            method: None,
        }
    }
}

/// Results of the bench.
pub struct FileOutcome {
    /// One row for each subject of each case.
    pub rows: Vec<FileRow>,
    /// Targets of the measured cases.
    pub targets: Vec<Target>,
    /// Method of the baseline, which aligned files have too unless another one was named.
    pub method: Method,
    /// Guarantee of a force, and how well it is established.
    pub assessment: Assessment,
    /// True if the user interrupted; the rows then hold the rounds completed before.
    pub interrupted: bool,
}

/// Runs the comparison.
pub fn run(options: &Options, setup: Setup) -> Result<FileOutcome, MeasureError> {
    setup.space.check(2 * FILE, "another --dir")?;
    let slices = Slices::new(setup, None, options.slice)?;
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for (at, &workload) in options.workloads.iter().enumerate() {
        let before = at as f64 / options.workloads.len() as f64;
        let measured = round::measure(options, &slices, workload, before);
        match measured {
            Ok((more, reached)) => {
                rows.extend(more);
                targets.extend(reached);
            }
            Err(e) if !slices.interrupt().is_raised() => rows.push(FileRow::failed(workload, &e)),
            Err(_) => {}
        }
        if slices.interrupt().is_raised() {
            break;
        }
    }
    let interrupted = slices.interrupt().is_raised();
    if interrupted && rows.is_empty() {
        return Err(MeasureError::Interrupted);
    }
    Ok(FileOutcome {
        rows,
        targets,
        method: slices.method(),
        assessment: slices.assessment().clone(),
        interrupted,
    })
}
