//! Measures the cost of a commit on this disk. Every number is printed with the guarantee that it
//! was measured under.
//!
//! - [`run`]: the measuring loop. Subjects commit in slices. The [`schedule`] interleaves the slices
//!   of all rows, so that a noisy neighbour affects all rows alike. A [`Recorder`] counts only what
//!   happens inside the commit loop: time, latency, and the device's own counters.
//! - [`result`]: the results, as data.
//! - [`scenario`]: the workloads and the conclusions from them: [`journal`], [`group`] and the others.
//! - [`doctor`]: the storage below a directory, layer by layer, and short tests of it.
//! - [`watch`]: one commit a second beside other work, for weeks.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod result;
pub mod run;
pub mod scenario;
pub mod watch;

#[cfg(test)]
mod testing;

pub use result::{Document, Kind, Name, Quantity, ReportError, Row, machine, output};
pub use run::{
    Interrupt, Limit, MeasureError, Recorder, RowKey, Setup, Subject, SubjectKind, beside,
    counters, counting, in_flight, library, prepare, probe, raw, recorder, schedule, space,
    subject, workers, workplace,
};
pub use scenario::{Scenario, group, inserts, journal, map, pages, preflight, sweep};
