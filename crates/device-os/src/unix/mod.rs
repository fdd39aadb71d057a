//! What Linux and macOS have in common.

pub mod directory;
pub mod error;
pub mod lock;
pub mod process;
pub mod transfer;
