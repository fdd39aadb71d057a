//! Measures what a commit costs on this disk, and never prints a number without what it
//! guarantees.
//!
//! A *scenario* ([`journal`]) makes rows; each row is a [`Subject`] that commits in slices. The
//! [`schedule`] interleaves the slices of all rows, so that a noisy neighbour hits all of them,
//! and a [`Recorder`] counts only what happens inside the commit loop: time, latency, and the
//! device's own counters. From the rows come the [`Report`], its conclusion, tables, JSON and
//! CSV.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod conclusion;
pub mod counters;
pub mod counting;
pub mod distribution;
pub mod error;
pub mod group;
pub mod head;
pub mod in_flight;
pub mod inserts;
pub mod interrupt;
pub mod journal;
pub mod layout;
pub mod library;
pub mod machine;
pub mod map;
pub mod notes;
pub mod numbers;
pub mod output;
pub mod pages;
pub mod plausible;
pub mod prepare;
pub mod probe;
pub mod progress;
pub mod prose;
pub mod published;
pub mod raw;
pub mod recorder;
pub mod report;
pub mod schedule;
pub mod space;
pub mod stats;
pub mod subject;
pub mod survives;
pub mod sweep;
pub mod table;
pub mod text;
pub mod workers;
pub mod workplace;

#[cfg(test)]
mod testing;

pub use error::MeasureError;
pub use interrupt::Interrupt;
pub use recorder::{Limit, Recorder};
pub use report::{Report, Row};
pub use subject::{RowKey, Subject, SubjectKind};
