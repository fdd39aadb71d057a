//! The log itself: from a record to durable bytes, and back after any crash.
//!
//! Runs on whatever implements [`logforce_device::System`]: the operating system, or a simulated
//! disk under a scheduler. Users depend on the crate `logforce`, which wires this to the former.
//!
//! Where to read first: `log` (the public face), then the way of a record: `stage` → `commit` →
//! `segments`; then the way back: `recovery` → `scan` → `reader`.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod advisor;
mod aside;
mod checkpoint;
mod close;
mod commit;
mod control_file;
mod error;
mod follow;
mod handles;
mod inspect;
mod listing;
mod log;
#[cfg(all(test, loom))]
mod loom_tests;
mod meta;
mod metrics;
mod names;
mod options;
mod pins;
mod poison;
mod policy;
mod prepare;
mod read_only;
mod reader;
mod reads;
mod records;
mod recovery;
mod regained;
mod remote;
mod rescue;
mod retiring;
mod scan;
mod seam_lock;
mod search;
mod segments;
mod service;
mod shown;
mod stage;
mod submit;
mod trace;
mod truncate;
mod view;
mod voids;
mod wakers;
mod walk;
mod watch;

pub use advisor::{Advisor, Observation, Question};
pub use aside::GivenUp;
pub use checkpoint::CheckpointDue;
pub use error::{Damage, Error, ErrorKind, Result};
pub use follow::Follower;
pub use inspect::{BatchInfo, Inspector, LogSummary, SegmentInfo, VerifyReport, Visit};
pub use log::{Committed, Log, RecordRange, RecoveryReport};
pub use logforce_device::{CutEvidence, CutResult, Facts, FileState, Guarantee, Method, Verdict};
pub use logforce_format::{
    BatchKind, Epoch, LogId, Lsn, MAX_META_LEN, MAX_RECORD_LEN, RecoveryCase,
};
pub use metrics::{Counters, HistogramSnapshot, LiveStats, LiveSummary, Stats};
pub use options::{OnDamage, OpenMode, Options};
pub use pins::Pin;
pub use policy::Policy;
pub use read_only::ReadOnly;
pub use reader::{Reader, Record};
pub use remote::ReadOnlyFollower;
pub use submit::{CommitHandle, ForceHandle, SubmitFuture};
