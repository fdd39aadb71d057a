//! Test tools of Logforce:
//!
//! - a simulated disk that loses, tears, reorders, delays, fails and rots;
//! - a scheduler that runs threads in an order given by a seed;
//! - the conformance suite that every backend must pass;
//! - functions for tests of whole programs.
//!
//! A crash test runs the shipped code in [`SimRuntime::run`] on a [`SimDisk`]. It cuts the power at an
//! operation, reboots, and runs the code again:
//!
//! ```
//! use logforce_device::{Barrier, OpenFile};
//! use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
//! use std::path::Path;
//!
//! let workload = |disk: &SimDisk, seed| {
//!     SimRuntime::run(seed, |rt| -> std::io::Result<()> {
//!         let dir = disk.system(rt).make_directory(Path::new("/log"))?;
//!         dir.open("a", OpenFile::CREATE)?.barrier(Barrier::Full)?;
//!         dir.sync()
//!     })
//! };
//! let disk = SimDisk::new(SimOptions::default(), 1);
//! workload(&disk, 1).unwrap();
//! for op in 0..disk.ops() {
//!     let disk = SimDisk::new(SimOptions::default(), 1);
//!     disk.cut_at(op);
//!     assert!(workload(&disk, 1).is_err() && disk.is_cut());
//!     disk.reboot(op);
//!     // Run and check recovery here; disk.log() returns the last operations.
//! }
//! ```

#![forbid(unsafe_code)]

pub mod another_user;
pub mod conformance;
mod disk;
#[cfg(target_os = "linux")]
pub mod loopfs;
pub mod process;
mod rng;
mod runtime;
pub mod skip;

pub use disk::{
    Call, Counters, Delays, FailingCalls, Failure, Fault, FaultCounts, FaultKind, Left, Misread,
    Refusal, SectorFault, SimDisk, SimOptions, Snapshot, Survival,
};
pub use rng::Rng;
#[cfg(shuttle)]
pub use runtime::shuttled::{CLOCK, Clock, ShuttleRuntime};
pub use runtime::{Points, SimRuntime};
