//! What Linux and macOS have in common.
//!
//! - `directory`: directories; `lock`: the file that is locked.
//! - `transfer` continues short transfers; `process`: other processes.

pub mod directory;
pub mod error;
pub mod lock;
pub mod process;
pub mod transfer;
