#![doc = include_str!("../README.md")]
//!
//! # Many groups
//!
//! A program with many Raft groups gives each group a store, and lets their logs share threads, memory and
//! open files through a [`logforce::Environment`]:
//!
//! ```no_run
//! # #[cfg(feature = "openraft-09")]
//! # async fn open<C: openraft::RaftTypeConfig>(is_new: bool) -> Result<(), Box<dyn std::error::Error>> {
//! use logforce::{EnvironmentOptions, Options};
//! use logforce_openraft::v09::LogStore;
//!
//! let environment = logforce::environment(&EnvironmentOptions::new())?;
//! let options = Options::new().create_new(is_new).environment(&environment);
//! for group in 0..100 {
//!     let path = format!("/var/lib/node/group-{group}");
//!     let store: LogStore<C> = LogStore::open(path, options.clone()).await?;
//!     // ... Raft::new(id, config, network, store, state_machine)
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The groups share no flush: each log forces its own file. On the machine of the measurements a group among
//! 100 busy ones had a median commit of 6.7 ms, a single group 0.18 ms.
//!
//! # Records
//!
//! Everything whose order matters is a record of the log: entries, votes, committed log ids, cuts and purges.
//! A restart replays the records in order. So a vote never survives without the entries before it, and an
//! entry that a new leader has cut never comes back.
//!
//! | call of openraft | record | durable when |
//! |---|---|---|
//! | `append` | an entry each | the callback is called |
//! | `save_vote` | the state: vote, committed and purged log id | it returns |
//! | `save_committed` | the state, in front of the next append | the next append is |
//! | `truncate`, `truncate_after` | a cut | it returns |
//! | `purge` | the state; then the log's front moves | it returns |
//!
//! The index of the entries is in memory, 32 bytes for each entry that is not purged. Opening reads the whole
//! log, so snapshots keep both small.
//!
//! Values are MessagePack with the names of fields. A program with a newer type reads its old entries wherever
//! serde can: new fields need `#[serde(default)]`. Bytes are compact with `serde_bytes`.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod error;
mod index;
mod reader;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod typed;
#[cfg(feature = "openraft-010")]
pub mod v010;
#[cfg(feature = "openraft-09")]
pub mod v09;

pub use error::Error;
