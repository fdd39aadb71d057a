//! The Linux backend.
//!
//! - `directory`: what makes names durable; the rest is `unix`'s. `file`: files; `direct` knows what
//!   direct I/O needs.
//! - `lock`, over `ofd` (unsafe): the call behind one writer per directory.
//! - `facts`, from `mounts` (what is mounted), `filesystem` (what that means) and `block` (the
//!   device below) and `volume` (which filesystem it is); `counters` reads the device's statistics.
//! - `runtime`, over `fork` (unsafe): futexes, random bits, and telling a forked child apart.

mod block;
mod counters;
mod direct;
pub mod directory;
pub mod facts;
pub mod file;
mod filesystem;
mod fork;
pub mod lock;
mod machine;
mod mounts;
mod ofd;
pub mod runtime;
mod volume;

pub use crate::unix::error;
use crate::unix::transfer;

pub use counters::{Counter, DeviceCounters, block_device_counters};
pub use machine::machine;
