//! Who is asked which method to use where the user named none, and what is known of methods from
//! cuts of power.

use logforce_device::{CutEvidence, Directory, Facts, Guarantee, Method, Runtime};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What an [`Advisor`] is told of a log.
pub struct Question<'a> {
    /// The log's directory. Files with names that the advisor keeps for itself (`calibration`,
    /// `verdicts`, either with `-<16 hexadecimal digits>.tmp` behind it) may be made in it.
    pub dir: &'a Arc<dyn Directory>,
    /// The log's runtime.
    pub runtime: &'a dyn Runtime,
    /// What the system tells of the place, asked anew at each opening.
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
    /// By which method.
    pub method: Method,
    /// Forces of a single write unit that were timed.
    pub forces: u64,
    /// The median of their times.
    pub p50: Duration,
}

/// Knows which method is fastest somewhere, and which was seen to lose or to keep what it
/// acknowledged. The crate `logforce` has one that measures and reads what was kept.
///
/// On methods it advises on speed only: the log does not take one that the facts do not allow, or
/// that guarantees less than the default one.
pub trait Advisor: Debug + Send + Sync {
    /// What cuts of power have shown of methods in this place. A loss makes the log refuse the
    /// method where [`Options::require`](crate::Options::require) asks for more than a crash of the
    /// system, also if the user named it; so does evidence that is there and cannot be read. Nothing
    /// makes a guarantee stronger. Called at each opening, before the writer's lock is taken; it must
    /// only read, and come back soon.
    fn tried(&self, question: &Question<'_>) -> CutEvidence {
        let _ = question;
        CutEvidence::default()
    }

    /// The method to use, if it knows. Called once for each opening, by the thread that opens,
    /// with the writer's lock held. It may take time, and must come back.
    fn method(&self, question: &Question<'_>) -> Option<Method>;

    /// Told at the end of an opening what its forces cost.
    fn observe(&self, question: &Question<'_>, observation: Observation);
}
