//! The log: makes records durable, and recovers them after any crash.
//!
//! It runs on any implementation of [`logforce_device::System`]: the operating system, or a simulated disk
//! under a scheduler. Users depend on the crate `logforce`, which connects this crate to the operating
//! system.
//!
//! Layers, each of which uses those below it: `log` (the public handle); `recovery`, `background` and
//! `truncation`; `engine`; `backup`; `read`; `metrics`; `state`; `scan`; `storage`; `environment`; `sync`;
//! and modules of plain data. Start reading with `engine::append`, `engine::commit`, `engine::publish`; for
//! recovery, with `recovery` and `scan::end_of_log`.

#![forbid(unsafe_code)]
// The log runs in a user's process, so it returns errors and never panics.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod background;
mod backup;
mod batch;
mod engine;
mod environment;
mod error;
mod log;
mod metrics;
mod names;
mod options;
mod policy;
mod read;
mod recovery;
mod scan;
mod state;
mod storage;
mod sync;
mod trace;
mod truncation;
mod types;

pub use backup::{BackupOptions, BackupReport, ChunkChain, Import, ImportOptions, backup};
pub use batch::{Append, Batch};
pub use environment::{Environment, EnvironmentOptions, EnvironmentStats};
#[doc(hidden)]
pub use error::advice;
pub use error::{Damage, Error, ErrorKind, Result};
pub use log::Log;
pub use log::checkpoint_requests::CheckpointRequests;
pub use log::handles::CommitHandle;
#[doc(hidden)]
pub use log::offload::offload;
pub use log::replicate::{ReplicaOptions, ReplicaWait, Replication};
pub use log::reserve::Permit;
pub use logforce_commit::method::Refused;
pub use logforce_commit::metrics::histogram::HistogramSnapshot;
pub use logforce_device::{
    Assessment, BlockDevice, CutEvidence, CutResult, DirectAlignment, Facts, FileState,
    FilesystemKind, Granted, Guarantee, Layer, Method, Platform, Source, Verdict, WriteCache,
};
pub use logforce_format::{
    BatchKind, Epoch, LogId, Lsn, MAX_META_LEN, MAX_RECORD_LEN, RecoveryCase,
};
pub use metrics::{Counters, LiveStats, LiveSummary, Stats};
pub use options::{Modes, OpenMode, Options};
pub use policy::Policy;
pub use read::backward::BackwardReader;
pub use read::follow::Follower;
pub use read::history::Position;
pub use read::inspect::Inspector;
pub use read::inspect::info::{BatchInfo, LogSummary, SegmentInfo, VerifyReport, Visit};
pub use read::raw::{LogChunk, LogState, joined_control};
pub use read::read_only::ReadOnly;
pub use read::reader::Reader;
pub use read::remote::follower::ReadOnlyFollower;
pub use read::remote::replica::ReadOnlyReplica;
pub use recovery::repair::{Cut, RepairOptions, RepairReport, repair};
pub use storage::hold::{AtHoldLimit, Hold};
#[doc(hidden)]
pub use sync::poison::refuse_in_waker;
pub use truncation::pin::Pin;
pub use types::{Acknowledged, CheckpointDue, Record, RecordRange, RecordRef, RecoveryReport};
