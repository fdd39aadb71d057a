//! Environments: threads, memory for batches and open files that the logs of one process share.

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

/// Threads, memory and open files that many logs of one process share, so that a log for each shard, tenant
/// or consensus group costs little. Pass it to each log by [`Options::environment`]. Clones are the same
/// environment. Its threads end when it, all its logs, and the [`Options`] that name it are dropped.
///
/// A log in an environment has no threads. After it was idle for a second, it has one open file, its lock.
/// Its segments begin at 256 KiB and grow with it ([`Options::first_segment_size`]). Its last stamp is
/// written after five seconds (`Tuning::idle_stamp`). It writes no statistics for other processes
/// (`Tuning::live_stats`).
///
/// The guarantees of a log are the same as outside an environment. Two things differ. While a log's files
/// are closed, it finds its directory by its path: if the directory is renamed, the log fails with
/// [`ErrorKind::Displaced`] at its next write. And the callbacks of submissions share a few threads: one
/// that blocks delays those of other logs.
///
/// [`ErrorKind::Displaced`]: crate::ErrorKind::Displaced
#[derive(Clone)]
pub struct Environment {
    pub(crate) shared: Arc<Shared>,
}

/// Options of an [`Environment`]: its budgets.
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
    /// Returns the defaults: 6 threads, 64 MiB, 128 logs with open files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of threads that write and prepare segments for all logs together: at least
    /// 2, default 6. Committing threads of the program write by themselves. So more threads help only if
    /// many logs have asynchronous commits or deadlines.
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count;
        self
    }

    /// Sets the memory for the batches of all logs together, in bytes. Default 64 MiB. When it is in use,
    /// batches stay at 16 KiB each, and a log with a full batch accepts no record until that batch is
    /// written. The limit for a single log is [`Options::buffer_size`].
    pub fn memory_size(mut self, bytes: u64) -> Self {
        self.memory = usize::try_from(bytes).unwrap_or(usize::MAX);
        self
    }

    /// Sets the maximum number of logs with files open besides their locks: at least 1, default 128. Each
    /// has up to three such files open while it writes. Beyond the maximum, a log that opens a file closes
    /// the files of another log that is not writing; that log opens them again for its next write. So the
    /// descriptors in use are at most one for each log, and three for each of `count` logs and for each
    /// thread that writes. If the process has no descriptor left, a log waits up to a second for other logs
    /// to close files.
    pub fn open_logs(mut self, count: usize) -> Self {
        self.open_logs = count;
        self
    }
}

/// Current use of an [`Environment`].
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
    /// Process that has the threads.
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

    /// Returns the current use.
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
        // A forked child has a copy of this struct, but none of the threads.
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

    /// Returns the shared state of the log's environment, if any.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        let InEnvironment(any) = self.environment.clone()?;
        any.downcast::<Shared>().ok()
    }
}

/// A budget in bytes. It only counts: the logs decide by it when a batch is full. No thread waits for it.
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

    /// Returns the bytes in use.
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

    /// Takes `bytes`, even beyond the limit, because a log must always be able to write its next batch.
    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}
