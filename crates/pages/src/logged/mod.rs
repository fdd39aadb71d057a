//! Logged commit: changes go to a log first, and to the pages' own places later, sorted.
//!
//! `commit` decides the order and appends, `admission` when it may; `state` is what the mutex guards,
//! `version_chain` the versions of one page, `clean` what the data file holds, in memory; `readers` who
//! reads which state, `newest` what most readers see, and `near` what they read again and again, each
//! beside that mutex; `grow` takes blocks for pages before a commit is accepted, `room` finds which
//! are missing; `read` finds a version; `checkpoint` is the
//! thread that brings generations of commits into the data file, `proof` the order in which it must;
//! `open` creates and recovers.

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
use hot_versions::HotVersions;
use logforce_core::{Granted, Log};
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

/// An open page file that commits through a log, as the program holds it.
#[derive(Clone)]
pub(crate) struct LoggedFile {
    store: Arc<LoggedStore>,
    /// One for each lane of readers, so that threads that begin and end to read do not count the same
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

/// What all of its threads share.
///
/// **Order of locks**, the first first: the mutex of the log, which calls `publish` with it locked;
/// [`state`](Self::state); then one of the mutexes that are held for a few instructions: a lane of readers,
/// a shard of the newest versions, the slots of the file of versions. All of them are locked for memory
/// only: no call of the device, and none of the log, is made under one of them.
pub(crate) struct LoggedStore {
    /// The directory and the runtime. Nothing in these three changes.
    data_dir: DataDir,
    options: Options,
    guarantee: Granted,
    /// As it was when the file was opened: for what never changes.
    header: PageFileHeader,
    log: Log,
    contents: PageContents,
    /// Writes in flight to the data file. Used by checkpoints, and by commits that
    /// fill new pages.
    writers: Writers,
    /// Commits, generations, versions in memory. Changed by commits (`publish`, `release`), by the
    /// checkpointer and by readers that look up a page. Locked for memory only. The log calls `publish`
    /// with its own mutex locked: so nothing may call the log while this is locked.
    state: Mutex<State>,
    /// The states that readers see: a mutex for each lane. Changed with the state locked (`show`) and,
    /// without it, by readers that begin and end.
    readers: Arc<ReaderTable>,
    /// Commits and checkpoints wait: pages were applied, or a generation began. Notified without a lock.
    progress: Event,
    checkpointer: Checkpointer,
    /// Counters, without a lock.
    counts: Counts,
}

/// Where the contents of pages are, beside the state and the log.
struct PageContents {
    /// Written by the checkpointer, and by commits that let it grow; read by anyone without a lock.
    data: DataFile,
    /// The newest version of pages that are read often: a mutex for each shard. Changed with
    /// the state locked, by commits and by readers that found one; read without.
    newest: HotVersions,
    /// Written by the checkpointer. Its slots have a mutex; they are freed without the state.
    versions_file: VersionsFile,
}

/// The thread that checkpoints.
struct Checkpointer {
    /// `None` before it is started, and once the file is closed.
    thread: Mutex<Option<Box<dyn JoinHandle>>>,
    /// It waits: a generation has ended, or the file is closed.
    work: Event,
    /// Commits that end up to here were read from the log when the file was opened.
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

    /// The size of a page, bytes.
    fn page_size(&self) -> usize {
        self.header.page_size as usize
    }

    /// Brings everything that is committed into the data file, durably.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.data_dir.check_process()?;
        let target = {
            let mut state = self.state();
            state.check()?;
            // Has the checkpointer try at once: there may be space again, and it would pause.
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
        // A checkpoint in files that were taken away is one that no opening finds.
        Ok(self.log.check_location()?)
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

    /// Forces the log and ends the threads. What is in the log and not in the data file is redone by
    /// the next opening.
    pub(crate) fn close(&self) -> Result<()> {
        // The parent goes on; its threads are not in this process.
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
            // If it has panicked, the failure is in the state.
            let _ = thread.join();
        }
        let closed = self.log.clone().close();
        self.data_dir.release();
        let failure = self.state().failure.clone();
        match failure {
            Some(e) => Err(e),
            None => closed.map_err(Error::from),
        }
    }

    /// The page file has failed: nothing is accepted any more.
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
