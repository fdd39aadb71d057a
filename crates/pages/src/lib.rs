//! Page files: commit a set of dirty pages of a data file all or nothing.
//!
//! The handle, [`PageFile`], has two commit modes:
//!
//! - **Copy-on-write** ([`CommitMode::CopyOnWrite`]): each written page gets a new place. Once all of them
//!   are durable, a header that refers to them is written and forced. There is no log and no recovery.
//! - **Logged** ([`CommitMode::Logged`]): the changes are written as one record of a
//!   [`Log`](logforce_core::Log). Later they are written to the pages' own places, sorted. A commit is one
//!   sequential write, shared by all threads that commit at the time.
//!
//! The crate runs on any [`logforce_device::System`]. Users depend on the crate `logforce`, which connects it
//! to the operating system.
//!
//! To read the code, begin with `transaction` and `snapshot` (the calls of users). Then read
//! `logged/commit.rs` and `logged/checkpoint.rs`, or `cow/commit.rs` (the order) and `cow/force.rs`
//! (durability). `inspect` reads a file without opening it.

#![forbid(unsafe_code)]
// In a user's process the crate returns errors and never panics.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod backup;
mod cache;
mod changes;
mod commit_handle;
mod cow;
mod dispatch;
mod error;
mod file_read;
mod files;
mod growth;
mod header;
mod inspect;
mod logged;
mod options;
mod page;
mod page_file;
mod snapshot;
mod transaction;
mod types;
mod uses;

pub use backup::base::BaseWriter;
pub use commit_handle::CommitHandle;
pub use error::{Error, ErrorKind, Result};
pub use inspect::Inspector;
pub use inspect::base::{BaseReader, is_log_of_page_file};
pub use inspect::info::{
    ChangeInfo, ChangeKind, Damage, FileSummary, FoundPage, HeaderSlot, Held, NextOpening,
    NodeInfo, PageInfo, PageSource, RedoInfo, RedoSummary, TableSummary, VerifyReport, Visit,
};
pub use logforce_format::{
    CopyOnWriteRoot, LoggedState, PageFileHeader, PageFileId, PageFileKind, PageHeaderReject,
};
pub use options::{
    CommitMode, Options, WriteThroughAdvisor, WriteThroughLimit, WriteThroughQuestion,
};
pub use page::Page;
pub use page_file::PageFile;
pub use snapshot::Snapshot;
pub use transaction::Transaction;
pub use types::{Acknowledged, Stats};
