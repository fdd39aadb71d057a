//! Tests whether the acknowledged commits of a program survive a power cut, and names the sync that is missing.
//!
//! The program runs on a real filesystem of the running kernel. Below it is a disk in user space that keeps apart what
//! was not flushed, and loses a random part of it when its power is cut.
//!
//! - [`Crashtest`] is the entry for Rust tests, [`test::run`] that of the command; [`plan`] and [`report`] are what they
//!   take and return, `text` prints the report.
//! - [`subject`] is the interface of a program under test. [`live`] cuts its power, [`states`] builds states of a
//!   recorded run, on [`outage`] (one session from power on to power off) and `replay`. Other suites begin here.
//! - `stage` is the subject of a plan: it runs the commands on a filesystem, with `acks` (acknowledgements),
//!   [`program`] (commands) and `output` (their output). `rehearsal` runs it without a cut, `runs` counts what weakens
//!   a test, `explain` looks for the missing sync, `writeback`
//!   works beside the program.
//! - [`testbed`] makes images, mounts them, and leaves nothing behind. [`disk`] is the disk, [`role`] starts its process,
//!   [`counters`] are sampled at the cut.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod acks;
pub mod counters;
pub mod disk;
pub mod explain;
mod library;
pub mod live;
pub mod outage;
mod output;
pub mod parts;
pub mod plan;
pub mod program;
mod rehearsal;
mod replay;
pub mod report;
pub mod role;
mod runs;
mod stage;
pub mod states;
pub mod subject;
pub mod test;
pub mod testbed;
mod text;
mod writeback;

pub use library::{Acknowledged, Acknowledger, Crashtest, Outcome, TaskResult};
