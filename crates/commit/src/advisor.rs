//! The interface to an advisor, which chooses the method if the user has named none, and returns the
//! evidence of power cuts on methods.

use logforce_device::{CutEvidence, Directory, Facts, Guarantee, Method, Runtime};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Input of an [`Advisor`]: the log or file that is opened, and its requirements.
pub struct Question<'a> {
    /// Directory of the log or file. The advisor may create files in it whose names are reserved for it:
    /// `calibration` and `verdicts`, and these names followed by `-<16 hexadecimal digits>.tmp`.
    pub dir: &'a Arc<dyn Directory>,
    /// Runtime of the log or file.
    pub runtime: &'a dyn Runtime,
    /// Facts that the system reports about the directory, read at each opening.
    pub facts: &'a Facts,
    /// Unit of the log's writes, bytes.
    pub write_unit: u32,
    /// Minimum guarantee of a force.
    pub require: Guarantee,
    /// Directory in which programs share measurements: `Options::calibration_cache`.
    pub cache: Option<&'a Path>,
}

/// Duration of the forces of one opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The method.
    pub method: Method,
    /// Number of measured forces of a single write unit.
    pub forces: u64,
    /// Their median duration.
    pub p50: Duration,
}

/// Source of advice on methods: the fastest one in a directory, and those that have lost or kept
/// acknowledged records in power cuts. The advisor of the crate `logforce` measures, and reads recorded
/// results.
///
/// Its choice of a method affects only speed: the log ignores a method that the facts do not allow, or that
/// guarantees less than the default method.
pub trait Advisor: Debug + Send + Sync {
    /// Returns the evidence of power cuts on methods in this directory. After a loss the log rejects the
    /// method, even one that the user has named, if `Options::require` demands
    /// more than survival of a system crash. Evidence that cannot be read counts as a loss. Evidence never
    /// makes a guarantee stronger. Called at each opening, before the log takes the writer lock. It must
    /// only read, and return soon.
    fn tried(&self, question: &Question<'_>) -> CutEvidence {
        let _ = question;
        CutEvidence::default()
    }

    /// Returns the method to use, if known. Called once for each opening, by the opening thread, with the
    /// writer lock held. It may take time, but must return.
    fn method(&self, question: &Question<'_>) -> Option<Method>;

    /// Receives the duration of the log's forces. Called when the log is closed.
    fn observe(&self, question: &Question<'_>, observation: Observation);
}
