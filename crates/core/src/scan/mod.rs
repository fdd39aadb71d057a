//! Reading batches in order, and finding where the log ends.
//!
//! `batch` decides whether a batch is the next one, `forward` walks them,
//! `resume` finds where later openings went on. `end_of_log` decides where the log ends; `walk` goes
//! over all of it, for whoever only looks.

pub(crate) mod batch;
pub(crate) mod coverage;
pub(crate) mod end_of_log;
pub(crate) mod forward;
pub(crate) mod resume;
pub(crate) mod walk;
