//! A continuous archive of a log in object storage.
//!
//! - `key`: names of the objects, and their order;
//! - `object`: objects as plain data;
//! - `format`: bytes of the objects; compression, and encryption on the client;
//! - `store`: object storage or a directory; each try has one answer;
//! - `protocol`: decides who may write and what counts; no I/O and no clock.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod admin;
mod archive;
mod attach;
mod base;
mod bucket;
mod check;
mod copier;
mod ends;
mod error;
mod fault;
pub mod format;
mod gather;
pub mod key;
mod level;
#[cfg(test)]
mod model;
pub mod object;
mod owner;
mod piece;
pub mod protocol;
mod prune;
mod reader;
mod restore;
mod source;
mod status;
pub mod store;
mod upload;

pub use admin::Contents;
pub use archive::{Archive, ArchiveOptions};
pub use attach::{AttachOptions, Attached};
pub use check::Verified;
pub use copier::Progress;
pub use error::{Error, Result};
pub use prune::Pruned;
pub use restore::{RestoreOptions, RestoreTo};
pub use status::Status;
