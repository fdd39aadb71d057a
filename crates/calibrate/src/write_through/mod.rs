//! Up to how much a page file writes through, where that is faster than a barrier after its writes.
//!
//! A barrier costs a flush of the device's cache, whatever was written; a write through costs one write
//! of its own kind for each run of contiguous pages. So there is a crossover in runs, and another one
//! in bytes, which belong to the device. [`choose_write_through`] gives what is known, or measures; in
//! doubt it is [`WriteThroughLimit::UNMEASURED`].

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

/// Up to how much is written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteThroughLimit {
    /// Contiguous runs; 0 for never.
    pub runs: u32,
    /// Bytes of all of them together.
    pub bytes: u64,
}

impl WriteThroughLimit {
    /// What is so without a measurement: one run of up to 1 MiB.
    pub const UNMEASURED: WriteThroughLimit = WriteThroughLimit {
        runs: 1,
        bytes: 1 << 20,
    };
}

/// Evidence of the crossover in a place, with what it is valid for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WriteThroughCalibration {
    /// Where it holds.
    pub valid_for: ValidFor,
    /// What was measured, and what follows.
    pub decided: Decided,
    /// Turns that were compared.
    pub turns: u32,
    /// How long the trial took.
    pub spent: Duration,
    /// When it ended, in milliseconds since 1970 by the system's clock; 0 if unknown.
    pub measured_at: u64,
}

#[cfg(test)]
mod tests;
