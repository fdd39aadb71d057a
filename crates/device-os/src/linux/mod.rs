//! The Linux backend.
//!
//! - `directory`: what makes names durable; the rest is `unix`'s. `file`: files, over `descriptors`; `direct`
//!   knows what direct I/O needs; `write_back` (unsafe) has the kernel begin to write; `uring` (unsafe) has many
//!   writes in flight.
//! - `lock`, over `ofd` (unsafe): the call behind one writer per directory.
//! - `facts`, from `stack` (the filesystem and all below it: `mounts`, what is mounted; `filesystem`
//!   and `zfs`, what that means; `block`, the device below; `layers`, what that is made of and so on down,
//!   `loop_file` and `allocation`, unsafe, the file of a loop device) and `volume` (which filesystem it is). All of them ask by `sysfs`, which takes only what is not found
//!   for what is not there. `counters` reads the device's statistics.
//! - `runtime`, over `fork` (unsafe): futexes, random bits, and telling a forked child apart.

mod block;
mod counters;
mod descriptors;
mod direct;
pub mod directory;
mod extents;
pub mod facts;
pub mod file;
mod filesystem;
mod fork;
mod layers;
pub mod lock;
mod loop_file;
mod mounts;
mod ofd;
pub mod runtime;
mod stack;
mod sysfs;
mod uring;
mod volume;
mod write_back;
mod zfs;

pub use crate::unix::error;
pub use crate::unix::mapping;
use crate::unix::{machine, transfer};

pub use counters::{Counter, DeviceCounters, block_device_counters};
