//! What Linux and macOS have in common.
//!
//! - `directory`: directories; `file`: how files are opened; `lock`: the file that is locked.
//! - `transfer` continues short transfers; `process`: other processes; `way`: whether a path still
//!   leads where it did.

pub mod directory;
pub mod error;
pub mod file;
pub mod lock;
pub mod process;
pub mod transfer;
pub mod way;
