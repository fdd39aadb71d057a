//! Reading batches in order, and finding the end of the log.
//!
//! `batch` checks that a batch is the next one. `forward` scans batches. `resume` finds the positions at
//! which later openings have continued. `end_of_log` decides where the log ends. `walk` reads the whole log,
//! for inspection.

pub(crate) mod batch;
pub(crate) mod coverage;
pub(crate) mod end_of_log;
pub(crate) mod forward;
pub(crate) mod resume;
pub(crate) mod walk;
