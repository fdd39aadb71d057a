//! The macOS backend. It has been compiled, but never run on macOS.
//!
//! - `directory`: durability of names; the rest is in `unix`. `file`: files, over `calls` (unsafe). `fsync`
//!   stops in the device's cache here; every barrier except those of the two weaker methods is `F_FULLFSYNC`.
//! - `lock`: the call behind one writer per directory. `facts`: the little that the system reports.
//! - `runtime`: waiting (the crate's `waiting`), random bits.

mod calls;
pub mod directory;
pub mod facts;
pub mod file;
pub mod lock;
pub mod runtime;

pub use crate::unix::error;
pub use crate::unix::mapping;
use crate::unix::{machine, transfer};
