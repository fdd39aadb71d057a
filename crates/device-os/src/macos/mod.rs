//! The macOS backend. It was compiled, and never run on macOS.
//!
//! - `directory`: what makes names durable; the rest is `unix`'s. `file`: files, over `calls`
//!   (unsafe). `fsync` ends in the device's cache here; every barrier but the two of the weaker
//!   methods is `F_FULLFSYNC`.
//! - `lock`: the call behind one writer per directory. `facts`: what little the system tells.
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
