//! Logged commit: changes go to a log first, and to the pages' own places later, sorted.
//!
//! - `commit` decides the order and appends; `admission` decides when a commit may be appended.
//! - `state` is the data under the mutex: `version_chain` has the versions of one page, `version_eviction`
//!   the versions in memory, and `page_cache` pages as the data file holds them.
//! - Three parts are outside that mutex: `readers` knows which states are read, `hot_versions` has what most
//!   readers see, and `lane_copies` what they read again and again.
//! - `grow` takes blocks for pages before a commit is accepted; `room` finds missing blocks.
//! - `read` finds a version; `versions_file` has older ones.
//! - `checkpoint` is the thread that brings generations of commits into the data file; `proof` enforces its
//!   order.
//! - `open` creates and recovers.

mod admission;
mod checkpoint;
mod commit;
mod diff;
mod grow;
mod hot_versions;
mod lane_copies;
pub(crate) mod map;
pub(crate) mod open;
mod page_cache;
mod proof;
pub(crate) mod read;
mod readers;
mod room;
mod state;
mod stats;
mod version_chain;
mod version_eviction;
mod versions_file;

pub(crate) use commit::LoggedCommit;
pub(crate) use read::LoggedView;

use crate::error::{Error, Result};
use crate::files::DataDir;
use crate::options::Options;
use crate::types::Stats;
use crate::uses::Uses;
use hot_versions::HotVersions;
use logforce_core::{Granted, Log, ReplicaOptions, Replication};
use logforce_device::Event;
use logforce_device::JoinHandle;
use logforce_device::sync::{Apart, Mutex, MutexGuard};
use logforce_device::write_out::Writers;
use logforce_format::{Lsn, PageFileHeader};
use proof::DataFile;
use readers::ReaderTable;
use state::State;
use stats::Counts;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use versions_file::VersionsFile;

/// Open page file that commits through a log, as the program holds it.
#[derive(Clone)]
pub(crate) struct LoggedFile {
    store: Arc<LoggedStore>,
    /// Owner for each lane of readers, so that threads that begin and end to read do not count the same
    /// references.
    owners: Arc<[Arc<Owner>]>,
}

type Owner = Apart<Arc<LoggedStore>>;

impl LoggedFile {
    fn new(store: Arc<LoggedStore>) -> LoggedFile {
        let owner = |_| Arc::new(Apart(store.clone()));
        LoggedFile {
            owners: (0..store.readers.lanes()).map(owner).collect(),
            store,
        }
    }
}

impl Deref for LoggedFile {
    type Target = LoggedStore;

    fn deref(&self) -> &LoggedStore {
        &self.store
    }
}

/// Parts that all threads of a logged file share.
///
/// **Order of locks**, outermost first: the mutex of the log, which calls `publish` with it locked;
/// [`state`](Self::state); then one of the mutexes that are held for a few instructions: a lane of readers, a
/// shard of the newest versions, or the slots of the versions file. Under all of them only memory is used: no
/// call of the device, and none of the log, is made.
pub(crate) struct LoggedStore {
    /// Directory and runtime. This field and the next two never change.
    data_dir: DataDir,
    options: Options,
    guarantee: Granted,
    /// Header at the opening, for the fields that never change.
    header: PageFileHeader,
    log: Log,
    contents: PageContents,
    /// Writes in flight to the data file. Used by checkpoints, and by commits that fill new pages.
    writers: Writers,
    /// Commits, generations and versions in memory. Changed by commits (`publish`, `release`), by the
    /// checkpointer, and by readers that look up a page. Only memory is used while it is locked. The log
    /// calls `publish` with its own mutex locked, so nothing may call the log while this is locked.
    state: Mutex<State>,
    /// States that readers see, with a mutex for each lane. Changed with the state locked (`show`) and,
    /// without it, by readers that begin and end.
    readers: Arc<ReaderTable>,
    /// Notified, without a lock, when pages were applied or a generation began. Commits and checkpoints wait
    /// for it.
    progress: Event,
    checkpointer: Checkpointer,
    /// Reads of views and growth in progress, for which closing waits. Checkpoints end with their thread.
    uses: Uses,
    /// Counters, which need no lock.
    counts: Counts,
}

/// Contents of pages outside the state and the log.
struct PageContents {
    /// Data file. Written by the checkpointer, and by commits that make it grow. Read by any thread without a
    /// lock.
    data: DataFile,
    /// Newest versions of pages that are read often, with a mutex for each shard. Changed with the state
    /// locked, by commits and by readers that found a version. Read without the state.
    newest: HotVersions,
    /// Older versions, written by the checkpointer. The slots have a mutex, and are freed without the state
    /// locked.
    versions_file: VersionsFile,
}

/// Handle of the checkpointer thread.
struct Checkpointer {
    /// `None` before it is started, and once the file is closed.
    thread: Mutex<Option<Box<dyn JoinHandle>>>,
    /// Notified when a generation has ended, or when the file is closed.
    work: Event,
    /// End of the commits that were read from the log when the file was opened.
    recovered: Lsn,
}

impl Checkpointer {
    fn thread(&self) -> MutexGuard<'_, Option<Box<dyn JoinHandle>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoggedStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runtime(&self) -> &dyn logforce_device::Runtime {
        &*self.data_dir.runtime
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.header
    }

    pub(crate) fn path(&self) -> &Path {
        &self.data_dir.path
    }

    pub(crate) fn guarantee(&self) -> Granted {
        self.guarantee.min(self.log.guarantee())
    }

    /// Returns the size of a page in bytes.
    fn page_size(&self) -> usize {
        self.header.page_size as usize
    }

    /// Brings everything committed into the data file, durably.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.data_dir.check_process()?;
        let target = {
            let mut state = self.state();
            state.check()?;
            // Makes the checkpointer try at once instead of pausing, because there may be space again.
            state.generations.stalled = None;
            state.points.latest.end
        };
        loop {
            let seen = self.progress.observe();
            {
                let mut state = self.state();
                state.check()?;
                if let Some(e) = &state.generations.stalled {
                    return Err(e.clone());
                }
                if state.generations.applied >= target {
                    break;
                }
                if state.generations.front < target {
                    let latest = state.points.latest;
                    state.generations.end(latest);
                }
            }
            self.checkpointer.work.notify(self.runtime());
            self.progress.wait(self.runtime(), seen, None);
        }
        // Checks the location, because no opening finds a checkpoint in files that were taken away.
        Ok(self.log.check_location()?)
    }

    pub(crate) fn replicate(&self, options: ReplicaOptions) -> Result<Replication> {
        self.data_dir.check_process()?;
        Ok(self.log.replicate(options)?)
    }

    pub(crate) fn stats(&self) -> Stats {
        let (memory, dirty_pages) = {
            let state = self.state();
            let memory = state.resident.count() as u64 * u64::from(self.header.page_size);
            let memory = memory + state.clean.bytes() + self.contents.newest.bytes();
            (memory, state.generations.dirty_pages())
        };
        self.counts.stats(memory, dirty_pages)
    }

    /// Forces the log and ends the threads. The next opening redoes what is in the log and not in the data
    /// file.
    pub(crate) fn close(&self) -> Result<()> {
        // In a fork there is nothing to end: the parent continues, and the threads are not in this process.
        if self.data_dir.check_process().is_err() {
            return Ok(());
        }
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.is_closing, true) {
                return Ok(());
            }
            state.show();
        }
        self.checkpointer.work.notify(self.runtime());
        self.progress.notify(self.runtime());
        let thread = self.checkpointer.thread().take();
        if let Some(thread) = thread {
            // If the thread panicked, the failure is in the state.
            let _ = thread.join();
        }
        let closed = self.log.clone().close();
        self.uses.close();
        self.data_dir.release();
        let failure = self.state().failure.clone();
        match failure {
            Some(e) => Err(e),
            None => closed.map_err(Error::from),
        }
    }

    /// Fails the page file: nothing is accepted any more.
    fn fail(&self, cause: Error) {
        let mut state = self.state();
        if state.failure.is_none() {
            let error = match cause {
                e @ Error::Poisoned(_) => e,
                e => Error::Poisoned(Arc::new(e)),
            };
            state.failure = Some(error);
        }
        drop(state);
        self.progress.notify(self.runtime());
    }
}
