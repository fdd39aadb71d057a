//! The parts of a test, and the run before them.

use crate::testbed::Filesystem;
use serde::Serialize;

/// Kinds of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The program is ended by `kill -9`; the disk keeps its power.
    Kill,
    /// Live cuts on a disk that ignores flushes. The check must notice losses.
    Control,
    /// Live cuts on an honest disk.
    Cuts,
    /// States that a cut could have left of a recorded run.
    States,
}

impl Part {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Part::Kill => "kill -9",
            Part::Control => "control",
            Part::Cuts => "cuts",
            Part::States => "states",
        }
    }
}

/// Figures of the program from a run without a cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsal {
    /// The filesystem.
    pub filesystem: Filesystem,
    /// Milliseconds from the start to the first acknowledgement.
    pub first_ack_ms: u64,
    /// Acknowledgements a second afterwards.
    pub acks_per_second: f64,
    /// Flushes that reached the disk.
    pub flushes: u64,
    /// Writes that reached the disk.
    pub writes: u64,
    /// Acknowledgements.
    pub acks: u64,
}
