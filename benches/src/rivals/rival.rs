//! Interface of the rivals.

use crate::rivals::records::FoundRecords;
use anyhow::Result;
use logforce_measure::Interrupt;
use logforce_measure::counters::CounterSource;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Number of commits of each thread before the clock starts: the first ones create files and caches.
pub(super) const WARM_UP: u64 = 10;

/// Measurements of one run of a rival.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RivalRun {
    /// Number of commits in the timed part.
    pub commits: u64,
    /// Duration of the timed part.
    pub took: Duration,
    /// Median duration of a commit, microseconds.
    pub p50_us: f64,
    /// 99th percentile of a commit's duration, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of a commit's duration, microseconds.
    pub p999_us: f64,
    /// Number of device flushes in the timed part.
    pub flushes: Option<u64>,
    /// Number of device writes in the timed part.
    pub writes: Option<u64>,
    /// Records found afterwards; `None` for a rival that keeps no records.
    pub kept: Option<Kept>,
}

impl RivalRun {
    /// Returns the commits per second.
    pub fn rate(&self) -> f64 {
        self.commits as f64 / self.took.as_secs_f64()
    }
}

/// Records found in a rival after reopening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Number of acknowledged records, including the warm-up.
    pub acknowledged: u64,
    /// Number of acknowledged records that were missing.
    pub missing: u64,
    /// Number of records that were never written, or came back changed.
    pub foreign: u64,
}

/// End of a run.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// Duration, after a warm-up.
    Time(Duration),
    /// Number of commits in all, without a warm-up.
    Count(u64),
}

/// Workload of a rival, which may choose its settings accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Size of a record, bytes.
    pub record: usize,
    /// Number of committing threads.
    pub threads: usize,
}

/// Handling of concurrent commits by a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Group commit: it forces the commits of several threads together.
    Group,
    /// Threads write concurrently, and each syncs for itself.
    Each,
    /// One transaction at a time; the other threads wait.
    OneByOne,
    /// No group commit: one thread of the benchmark commits the records of all waiting threads.
    Caller,
    /// One thread only.
    Single,
}

impl Writers {
    /// Returns a description for the list of settings.
    pub fn in_words(self) -> &'static str {
        match self {
            Writers::Group => "built-in group commit",
            Writers::Each => "no group commit: each thread syncs for itself",
            Writers::OneByOne => "one writer: threads take turns, one transaction per record",
            Writers::Caller => "batching by the caller: all waiting records are written at once",
            Writers::Single => "one thread only",
        }
    }
}

/// A log or store that can be measured.
pub trait Rival: Sync {
    /// Returns the short name, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// Returns the version that is linked.
    fn version(&self) -> String;

    /// Returns the settings in words, for printing below the table.
    fn settings(&self) -> String;

    /// Returns its handling of concurrent commits.
    fn writers(&self) -> Writers;

    /// Returns the process in which it runs.
    fn way(&self) -> Way<'_>;
}

/// Process in which a rival runs.
pub enum Way<'r> {
    /// In this process.
    Here(&'r dyn InProcess),
    /// In a separate process, a whole turn at a time. For commits requested from here, the communication
    /// with that process would be measured as well.
    Apart(&'r dyn OwnProcess),
}

/// A rival that runs in this process.
pub trait InProcess: Sync {
    /// Opens it in an empty directory. Work that can be done ahead of the first commit, such as filling
    /// files with zeroes, is done here and not timed.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>>;

    /// Reopens the store that [`Opened::close`] closed, and passes every record to `found`. Returns
    /// false if it keeps no records (a raw loop).
    ///
    /// # Errors
    /// Returns the rival's error.
    fn read_back(&self, dir: &Path, shape: Shape, found: &mut FoundRecords) -> Result<bool>;
}

/// A rival that runs in a separate process.
pub trait OwnProcess: Sync {
    /// Runs a whole turn: open, warm up, commit, close, read everything back.
    ///
    /// # Errors
    /// Returns the rival's error, an error of its process, or an error if the turn was interrupted.
    fn turn(&self, turn: &Turn<'_>) -> Result<RivalRun>;
}

/// A turn for a separate process.
pub struct Turn<'a> {
    /// An empty directory.
    pub dir: &'a Path,
    /// Workload.
    pub shape: Shape,
    /// End of the turn.
    pub until: Until,
    /// Counters of the device's writes and flushes, read at the start and at the end of the timed part.
    pub counters: &'a dyn CounterSource,
    /// Ends the turn, and the process.
    pub interrupt: &'a Interrupt,
}

/// An open store. Threads call [`commit`](Self::commit) concurrently.
pub trait Opened: Send + Sync {
    /// Commits a record; it is durable when this returns. `writer` is the thread's number and `number`
    /// the record's number within the thread, both from 0. The record contains both.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn commit(&self, writer: usize, number: u64, record: &[u8]) -> Result<()>;

    /// Closes the store.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Name of etcd's log.
pub const ETCD_WAL: &str = "etcd-wal";
/// Name of HashiCorp's log. A Rust crate is called raft-wal, too.
pub const RAFT_WAL: &str = "raft-wal-go";

/// An entry of the list of rivals.
pub enum Entry {
    /// A rival of this build.
    Here(Box<dyn Rival>),
    /// A rival that cannot run.
    Absent {
        /// Name.
        name: &'static str,
        /// Missing part.
        why: String,
    },
}

impl Entry {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        match self {
            Entry::Here(rival) => rival.name(),
            Entry::Absent { name, .. } => name,
        }
    }
}
