//! Tests whether the acknowledged commits of a program survive a power cut.
//!
//! The program runs on a real filesystem of the running kernel. Below it is a [`disk`] in user space that keeps
//! apart what was not flushed, and loses a random part of it when its power is cut. [`testbed`] makes the images,
//! mounts them, and leaves nothing behind. [`outage`] is one session from power on to power off, and [`replay`]
//! builds the states that a cut could have left at any moment of a recorded session.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod acks;
mod beside;
pub mod counters;
pub mod disk;
pub mod explain;
mod library;
mod live;
pub mod outage;
pub mod parts;
pub mod plan;
pub mod program;
pub mod replay;
pub mod report;
pub mod role;
mod stage;
mod states;
pub mod test;
pub mod testbed;
mod text;

pub use library::{Acknowledged, Acknowledger, Crashtest, Outcome, TaskResult};
