//! What the logs of one process share: threads, memory for batches, open files.

use crate::error::{Error, Result};
use crate::options::{InEnvironment, Options};
use crate::sync::pool::{MIN_THREADS, Pool};
use fd_budget::FdBudget;
use logforce_device::Runtime;
use members::Members;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::*;
pub(crate) mod fd_budget;
pub(crate) mod fd_retry;
pub(crate) mod members;

/// What many logs of one process share, so that a log for each shard, tenant or consensus group costs
/// little: threads, memory, and open files. Pass it to each by [`Options::environment`]. Clones are the
/// same environment; its threads end when it, all its logs, and the [`Options`] that name it are dropped.
///
/// A log in it has no thread of its own. When it was idle for a second, it has one open file, its
/// lock. Its segments begin at 256 KiB and grow with it ([`Options::first_segment_size`]); its last
/// stamp is written after five seconds (`Tuning::idle_stamp`); it writes no statistics for other
/// processes (`Tuning::live_stats`).
///
/// What its logs guarantee is the same as alone. Two things differ. While its files are closed, the
/// directory is found by its path: if it is renamed, the log fails with [`ErrorKind::Displaced`]
/// at its next write. And callbacks of submissions share few threads: one that blocks delays those of
/// other logs.
///
/// [`ErrorKind::Displaced`]: crate::ErrorKind::Displaced
#[derive(Clone)]
pub struct Environment {
    pub(crate) shared: Arc<Shared>,
}

/// The budgets of an [`Environment`].
#[derive(Debug, Clone)]
pub struct EnvironmentOptions {
    threads: usize,
    memory: usize,
    open_logs: usize,
}

impl Default for EnvironmentOptions {
    fn default() -> Self {
        EnvironmentOptions {
            threads: 6,
            memory: 64 << 20,
            open_logs: 128,
        }
    }
}

impl EnvironmentOptions {
    /// The defaults: 6 threads, 64 MiB, 128 logs with open files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maximum of threads that write and prepare segments for all logs together; at least 2, the
    /// default is 6. Committing threads of the program write by themselves: more threads pay where
    /// many logs have only asynchronous commits, or deadlines.
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count;
        self
    }

    /// Memory for batches of all logs together, in bytes. Default 64 MiB. Beyond it, batches stay at
    /// 16 KiB each, and a log with one that waits to be written accepts no more before that is
    /// done. A log's own limit is [`Options::buffer_size`].
    pub fn memory_size(mut self, bytes: u64) -> Self {
        self.memory = usize::try_from(bytes).unwrap_or(usize::MAX);
        self
    }

    /// How many logs may have files open besides their locks; at least 1, the default is 128. Each has
    /// up to three while it writes. Beyond that, a log that opens a file closes those of another one that
    /// does not write just now, which opens them again for its next write. So the most are one for each
    /// log, and three for each of this many and for each thread that writes. Where the process has
    /// no descriptor left, a log waits a second at most for others to give theirs back.
    pub fn open_logs(mut self, count: usize) -> Self {
        self.open_logs = count;
        self
    }
}

/// What an [`Environment`] uses now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentStats {
    /// Open logs.
    pub logs: usize,
    /// Logs with files open besides their locks.
    pub logs_with_open_files: usize,
    /// Threads that were started.
    pub threads: usize,
    /// Bytes of memory for batches.
    pub memory: usize,
}

/// The shared state.
pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) fd_budget: Arc<FdBudget>,
    pub(crate) members: Members,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The process that has the threads.
    process: u64,
}

impl Environment {
    /// Starts an environment for logs of a system with this runtime.
    #[doc(hidden)]
    pub fn start(runtime: Arc<dyn Runtime>, options: &EnvironmentOptions) -> Result<Environment> {
        let pool = Pool::start(runtime.clone(), options.threads.max(MIN_THREADS)).map_err(
            Error::io("start threads for", PathBuf::from("an environment")),
        )?;
        Ok(Environment {
            shared: Arc::new(Shared {
                pool,
                memory: Arc::new(MemoryBudget::new(options.memory)),
                fd_budget: FdBudget::new(options.open_logs),
                members: Members::default(),
                process: runtime.process(),
                runtime,
            }),
        })
    }

    /// What it uses now.
    pub fn stats(&self) -> EnvironmentStats {
        EnvironmentStats {
            logs: self.shared.members.count(),
            logs_with_open_files: self.shared.fd_budget.count(),
            threads: self.shared.pool.threads(),
            memory: self.shared.memory.used(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child has a copy of this, and none of the threads.
        if self.runtime.process() == self.process {
            self.pool.stop();
            self.pool.join();
        }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Environment").field(&self.stats()).finish()
    }
}

impl Options {
    /// Opens the log in an [`Environment`], whose threads, memory and open files it shares with other
    /// logs of this process.
    pub fn environment(mut self, environment: &Environment) -> Self {
        self.environment = Some(InEnvironment(environment.shared.clone()));
        self
    }

    /// The environment that the log shares.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        let InEnvironment(any) = self.environment.clone()?;
        any.downcast::<Shared>().ok()
    }
}

/// A budget in bytes. It only counts, and decides when a batch is full; no thread waits for it.
pub(crate) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        MemoryBudget {
            limit,
            used: AtomicUsize::new(0),
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns whether all of it is in use.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used() >= self.limit
    }

    /// Takes `bytes` if the budget has them.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// Takes `bytes` also beyond the limit: a log must always be able to write its next batch.
    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}
