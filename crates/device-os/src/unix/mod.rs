//! Code that Linux and macOS have in common.
//!
//! - `directory`: directories; `open_directory`: the part that files keep alive, and opening files; `lock`:
//!   the lock file.
//! - `mapping` (unsafe): a file in memory; `machine` (unsafe): this computer, processes, processor time.
//! - `transfer` continues short transfers; `path_identity` checks whether a path still leads to the same
//!   directory.

pub mod directory;
pub mod error;
pub mod lock;
pub mod machine;
pub mod mapping;
pub mod open_directory;
pub mod path_identity;
pub mod transfer;

/// Means by which facts are determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// Queries only.
    None,
    /// A file without a name, which disappears when it is closed.
    NamelessFile,
}
