//! The macOS backend. It was compiled, and never run on macOS.
//!
//! - `system`, `directory`, `file`: the three traits, over `calls` (unsafe). `fsync` ends in the
//!   device's cache here; every barrier but the two of the weaker methods is `F_FULLFSYNC`.
//! - `lock`: one writer per directory. `facts`: what little the system tells.
//! - `runtime`, `machine`: waiting (the crate's `waiting`), random bits, the version.

mod calls;
mod directory;
mod facts;
mod file;
mod lock;
mod machine;
pub mod runtime;
mod system;

use crate::unix::{error, transfer};

pub use machine::machine;
pub use system::OsSystem;
