//! The interface to an advisor: which method to use if the user has named none, and what power cuts
//! have shown of methods.

use logforce_device::{CutEvidence, Directory, Facts, Guarantee, Method, Runtime};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What an [`Advisor`] knows of a log.
pub struct Question<'a> {
    /// The log's directory. Files with names that the advisor keeps for itself (`calibration`,
    /// `verdicts`, either followed by `-<16 hexadecimal digits>.tmp`) may be created in it.
    pub dir: &'a Arc<dyn Directory>,
    /// The log's runtime.
    pub runtime: &'a dyn Runtime,
    /// What the system reports about the directory, read at each opening.
    pub facts: &'a Facts,
    /// The unit of the log's writes, in bytes.
    pub write_unit: u32,
    /// The least that a force must guarantee.
    pub require: Guarantee,
    /// The directory of [`Options::calibration_cache`](crate::Options::calibration_cache).
    pub cache: Option<&'a Path>,
}

/// What the forces of one opening cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The method.
    pub method: Method,
    /// Forces of a single write unit that were timed.
    pub forces: u64,
    /// Their median duration.
    pub p50: Duration,
}

/// Knows which method is fastest in a directory, and which ones have lost or kept acknowledged
/// records in power cuts. The crate `logforce` has one that measures, and reads recorded results.
///
/// Its choice of a method is about speed only: the log ignores a method that the facts do not
/// allow, or that guarantees less than the default one.
pub trait Advisor: Debug + Send + Sync {
    /// What power cuts have shown of methods in this directory. After a loss the log rejects the
    /// method if [`Options::require`](crate::Options::require) demands more than a crash of the
    /// system, even if the user has named it; evidence that cannot be read counts as a loss.
    /// Evidence never makes a guarantee stronger. Called at each opening, before the log takes the
    /// writer lock; it must only read, and return soon.
    fn tried(&self, question: &Question<'_>) -> CutEvidence {
        let _ = question;
        CutEvidence::default()
    }

    /// The method to use, if known. Called once for each opening, by the opening thread, with the
    /// writer lock held. It may take time, but must return.
    fn method(&self, question: &Question<'_>) -> Option<Method>;

    /// Called when the log is closed, with what its forces cost.
    fn observe(&self, question: &Question<'_>, observation: Observation);
}
