//! What a process is asked for and what it answers; the same in `go/main.go` and `go/bulk.go`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Which of the things that the program does.
    pub work: Work,
    /// By which log.
    pub log: String,
    /// Where.
    pub dir: PathBuf,
    /// Bytes of a record.
    pub record: usize,
    /// Threads that commit.
    pub threads: usize,
    /// Commits of each thread before the clock starts.
    pub warm_up: u64,
    /// How long to commit, where `commits` is 0.
    pub seconds: f64,
    /// Commits of all threads.
    pub commits: u64,
}

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Open, commit, close, read back; of the Go program alone.
    Turn,
    /// Append many and force them.
    Append,
    /// Read them back.
    Read,
    /// Print records; of the Go program alone.
    Records,
}

/// What a part of the bulk comparison came to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PartDone {
    /// Until all was durable, or until all was read.
    pub seconds: f64,
    /// The most memory that was resident, KiB; `None` where the system does not say.
    pub peak_kib: Option<u64>,
    /// How many records were not there.
    pub missing: u64,
    /// Records that nobody wrote, or changed.
    pub foreign: u64,
}
