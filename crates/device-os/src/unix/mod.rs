//! What Linux and macOS have in common.
//!
//! - `directory`: directories; `open_directory`: what their files keep, and how files are opened; `lock`:
//!   the file that is locked.
//! - `mapping` (unsafe): a file in memory; `machine` (unsafe): this computer, processes, processor time.
//! - `transfer` continues short transfers; `path_identity`: whether a path still leads where it did.

pub mod directory;
pub mod error;
pub mod lock;
pub mod machine;
pub mod mapping;
pub mod open_directory;
pub mod path_identity;
pub mod transfer;

/// Means by which facts are found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// Looking alone.
    None,
    /// A file without a name, which is gone when it is closed.
    NamelessFile,
}
