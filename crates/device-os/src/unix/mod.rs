//! What Linux and macOS have in common.
//!
//! - `directory`: directories; `file`: how files are opened; `lock`: the file that is locked.
//! - `mapping` (unsafe): a file in memory; `times` (unsafe): processor time.
//! - `transfer` continues short transfers; `process`: other processes; `way`: whether a path still
//!   leads where it did.

pub mod directory;
pub mod error;
pub mod file;
pub mod lock;
pub mod mapping;
pub mod process;
pub mod times;
pub mod transfer;
pub mod way;

/// Means by which facts are found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// Looking alone.
    None,
    /// A file without a name, which is gone when it is closed.
    NamelessFile,
}
