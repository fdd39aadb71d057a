//! Poison of the log, reasons of its wake-ups, and the pool of threads. The events and wakers are those of
//! `logforce_commit::sync`.

pub(crate) mod poison;
pub(crate) mod pool;
pub(crate) mod wake;
pub(crate) mod work_event;
