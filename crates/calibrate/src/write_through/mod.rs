//! The write-through limit of page files: the largest commit that is faster by write-through than by writes
//! and a barrier.
//!
//! A barrier costs one flush of the device's cache for any number of writes. A write-through costs one
//! special write for each run of contiguous pages. So there is a crossover in runs and another one in bytes,
//! which depend on the device. [`choose_write_through`] returns the known limit, or measures it. In doubt the
//! limit is [`WriteThroughLimit::UNMEASURED`].

mod choose;
mod decide;
mod store;
mod trial;

pub use choose::{
    WriteThroughMemory, WriteThroughSite, choose_write_through, known_write_through,
    measure_write_through,
};
pub use decide::{Decided, WriteThroughFigure};
pub use store::NAME as WRITE_THROUGH_NAME;

use crate::ValidFor;
use std::time::Duration;

/// The largest commit that is written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteThroughLimit {
    /// Maximum number of contiguous runs; 0 means that nothing is written through.
    pub runs: u32,
    /// Maximum bytes of all runs together.
    pub bytes: u64,
}

impl WriteThroughLimit {
    /// Default without a measurement: one run of up to 1 MiB.
    pub const UNMEASURED: WriteThroughLimit = WriteThroughLimit {
        runs: 1,
        bytes: 1 << 20,
    };
}

/// Evidence of the write-through limit in a directory, with the conditions under which it is valid.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WriteThroughCalibration {
    /// Conditions under which the evidence is valid.
    pub valid_for: ValidFor,
    /// Results and decision.
    pub decided: Decided,
    /// Number of turns that were compared.
    pub turns: u32,
    /// Duration of the trial.
    pub spent: Duration,
    /// End of the trial in milliseconds since 1970 by the system's clock; 0 if unknown.
    pub measured_at: u64,
}

#[cfg(test)]
mod tests;
