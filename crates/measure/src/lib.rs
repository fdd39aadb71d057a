//! Measures what a commit costs on this disk, and never prints a number without what it
//! guarantees.
//!
//! - [`run`]: subjects commit in slices. The [`schedule`] interleaves the slices of all rows, so
//!   that a noisy neighbour hits all of them, and a [`Recorder`] counts only what happens inside
//!   the commit loop: time, latency, and the device's own counters.
//! - [`result`]: what comes of it, as data.
//! - [`scenario`]: what is measured, and what follows from it: [`journal`], [`group`] and the others.

#![forbid(unsafe_code)]

pub mod result;
pub mod run;
pub mod scenario;

#[cfg(test)]
mod testing;

pub use result::{Document, Kind, Name, Quantity, ReportError, Row, machine, output};
pub use run::{
    Interrupt, Limit, MeasureError, Recorder, RowKey, Setup, Subject, SubjectKind, counters,
    counting, in_flight, library, prepare, probe, raw, recorder, schedule, space, subject, workers,
    workplace,
};
pub use scenario::{Scenario, group, inserts, journal, map, pages, sweep};
