//! Reading batches in order, and finding where the log ends.
//!
//! `batch` decides whether a batch is the next one, `forward` scans them, `resume` finds where
//! later openings have continued. `end_of_log` decides where the log ends; `walk` reads all of it,
//! for inspection.

pub(crate) mod batch;
pub(crate) mod coverage;
pub(crate) mod end_of_log;
pub(crate) mod forward;
pub(crate) mod resume;
pub(crate) mod walk;
