//! Requests to a process and its answers; mirrored in `go/main.go` and `go/bulk.go`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Work to do.
    pub work: Work,
    /// Name of the log.
    pub log: String,
    /// Directory.
    pub dir: PathBuf,
    /// Size of a record, bytes.
    pub record: usize,
    /// Number of committing threads.
    pub threads: usize,
    /// Commits of each thread before the clock starts.
    pub warm_up: u64,
    /// Duration of the commits, seconds; used if `commits` is 0.
    pub seconds: f64,
    /// Number of commits of all threads together.
    pub commits: u64,
}

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Open, commit, close, read back; only in the Go program.
    Turn,
    /// Append many and force them.
    Append,
    /// Read them back.
    Read,
    /// Print records; only in the Go program.
    Records,
}

/// Result of a part of the bulk comparison.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PartDone {
    /// Time until everything was durable, or until everything was read, seconds.
    pub seconds: f64,
    /// Peak resident memory, KiB; `None` if the system does not report it.
    pub peak_kib: Option<u64>,
    /// Number of missing records.
    pub missing: u64,
    /// Number of records that were never written, or came back changed.
    pub foreign: u64,
}
