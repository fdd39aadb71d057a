//! The command, run as its users run it.
//!
//! One program: to link each file by itself took longer than to run it.

mod bench;
mod calibrate;
mod common;
mod ended_early;
mod facts;
mod group;
#[path = "common/logs.rs"]
mod logs;
mod look;
mod look_damaged;
mod look_refused;
#[path = "common/methods.rs"]
mod methods;
mod mutated;
#[path = "common/runs.rs"]
mod runs;
mod salvage;
#[path = "common/tiny.rs"]
mod tiny;
mod words;
