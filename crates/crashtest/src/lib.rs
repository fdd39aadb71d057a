//! Tests whether the acknowledged commits of a program survive a power cut, and names the sync that is missing.
//!
//! The program runs on a real filesystem of the running kernel. Below it is a disk in user space that keeps apart what
//! was not flushed, and loses a random part of it when its power is cut.
//!
//! - [`Crashtest`] is the entry for Rust tests, [`test::run`] that of the command; [`plan`] and [`report`] are what they
//!   take and return, `text` prints the report.
//! - `stage` runs the program and its check on a filesystem, with `acks` (acknowledgements), [`program`] (commands) and
//!   `output` (their output). `runs` counts what weakens a test.
//!   `live` cuts the power, `states` builds states of a recorded run, `explain` looks for the missing sync, `writeback`
//!   works beside the program.
//! - [`outage`] is one session from power on to power off, [`replay`] a recorded one. Other suites begin here.
//! - [`testbed`] makes images, mounts them, and leaves nothing behind. [`disk`] is the disk, [`role`] starts its process,
//!   [`counters`] are sampled at the cut.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod acks;
pub mod counters;
pub mod disk;
pub mod explain;
mod library;
mod live;
pub mod outage;
mod output;
pub mod parts;
pub mod plan;
pub mod program;
pub mod replay;
pub mod report;
pub mod role;
mod runs;
mod stage;
mod states;
pub mod test;
pub mod testbed;
mod text;
mod writeback;

pub use library::{Acknowledged, Acknowledger, Crashtest, Outcome, TaskResult};
