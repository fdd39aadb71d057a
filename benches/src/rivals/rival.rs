//! What a rival has to be able to do.

use crate::rivals::records::FoundRecords;
use anyhow::Result;
use logforce_measure::Interrupt;
use logforce_measure::counters::CounterSource;
use std::path::Path;
use std::time::Duration;

/// Commits of each thread before the clock starts: the first ones make files and caches.
pub(super) const WARM_UP: u64 = 10;

/// Measurements of one run of a rival.
#[derive(Debug, Clone)]
pub struct RivalRun {
    /// Commits in the timed part.
    pub commits: u64,
    /// Duration of the timed part.
    pub took: Duration,
    /// Median duration of a commit, microseconds.
    pub p50_us: f64,
    /// 99th percentile of a commit's duration, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of a commit's duration, microseconds.
    pub p999_us: f64,
    /// Flushes of the device in the timed part.
    pub flushes: Option<u64>,
    /// Writes of the device in the timed part.
    pub writes: Option<u64>,
    /// Records that were there afterwards; `None` for a rival that keeps no records.
    pub kept: Option<Kept>,
}

impl RivalRun {
    /// Commits per second.
    pub fn rate(&self) -> f64 {
        self.commits as f64 / self.took.as_secs_f64()
    }
}

/// Records of a rival that was opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Acknowledged records, those of the warm-up included.
    pub acknowledged: u64,
    /// Acknowledged records that were not there.
    pub missing: u64,
    /// Records that nobody wrote, or changed.
    pub foreign: u64,
}

/// End of a run.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// So long, after a warm-up.
    Time(Duration),
    /// Number of commits in all, without a warm-up.
    Count(u64),
}

/// What will be asked of a rival: it may choose its settings by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a record.
    pub record: usize,
    /// Threads that commit.
    pub threads: usize,
}

/// How a rival takes commits of several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// It forces what several threads wait for together.
    Group,
    /// They write side by side, and each syncs for itself.
    Each,
    /// One transaction at a time: the others wait for their turn.
    OneByOne,
    /// It has none, and one thread of the benchmark takes what the others wait for.
    Caller,
    /// One thread only.
    Single,
}

impl Writers {
    /// In words, for the list of settings.
    pub fn in_words(self) -> &'static str {
        match self {
            Writers::Group => "group commit of its own",
            Writers::Each => "no group commit: each thread syncs for itself",
            Writers::OneByOne => "one writer: threads take turns, one transaction per record",
            Writers::Caller => "batching written by the caller: what waits is written at once",
            Writers::Single => "one thread only",
        }
    }
}

/// A log or store that can be measured.
pub trait Rival: Sync {
    /// Short, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// The version that is linked.
    fn version(&self) -> String;

    /// The settings, in words; they are printed below the table.
    fn settings(&self) -> String;

    /// What several threads get.
    fn writers(&self) -> Writers;

    /// Where it runs.
    fn way(&self) -> Way<'_>;
}

/// Where a rival runs.
pub enum Way<'r> {
    /// In this process.
    Here(&'r dyn InProcess),
    /// In one of its own, a whole turn at a time: a commit that is asked for from here would
    /// measure the way to that process as well.
    Apart(&'r dyn OwnProcess),
}

/// One that runs in this process.
pub trait InProcess: Sync {
    /// Opens it in an empty directory. What can be prepared ahead of the first commit (files
    /// filled with zeroes, say) is prepared here, and not timed.
    ///
    /// # Errors
    /// What the rival says.
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>>;

    /// Opens what [`Opened::close`] left in the directory and shows every record to `found`.
    /// False where it keeps no records (a raw loop).
    ///
    /// # Errors
    /// What the rival says.
    fn read_back(&self, dir: &Path, shape: Shape, found: &mut FoundRecords) -> Result<bool>;
}

/// One that runs in a process of its own.
pub trait OwnProcess: Sync {
    /// A whole turn: open, warm up, commit, close, read everything back.
    ///
    /// # Errors
    /// What the rival says, what is wrong with its process, or that the turn was interrupted.
    fn turn(&self, turn: &Turn<'_>) -> Result<RivalRun>;
}

/// What is asked of a process of its own.
pub struct Turn<'a> {
    /// An empty directory.
    pub dir: &'a Path,
    /// What is committed.
    pub shape: Shape,
    /// How long.
    pub until: Until,
    /// What counts the device's writes and flushes; read where the timed part begins and ends.
    pub counters: &'a dyn CounterSource,
    /// Ends the turn, and the process.
    pub interrupt: &'a Interrupt,
}

/// One that is open. Threads call [`commit`](Self::commit) at the same time.
pub trait Opened: Send + Sync {
    /// Takes a record; it is durable when this returns. `writer` is the thread's number from 0,
    /// `number` counts its records from 0: both are in the record, too.
    ///
    /// # Errors
    /// What the rival says.
    fn commit(&self, writer: usize, number: u64, record: &[u8]) -> Result<()>;

    /// Closes it in order.
    ///
    /// # Errors
    /// What the rival says.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The name of etcd's log.
pub const ETCD_WAL: &str = "etcd-wal";
/// The name of HashiCorp's log.
pub const RAFT_WAL: &str = "raft-wal";

/// Someone on the list.
pub enum Entry {
    /// Can be run.
    Here(Box<dyn Rival>),
    /// Is not in this build.
    Absent {
        /// Its name.
        name: &'static str,
        /// The missing part.
        why: String,
    },
}

impl Entry {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Entry::Here(rival) => rival.name(),
            Entry::Absent { name, .. } => name,
        }
    }
}
