//! The handle of a page file.

use crate::dispatch::Store;
use crate::error::{Error, Result};
use crate::options::{CommitMode, Options};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::types::Stats;
use logforce_commit::sync::wakers::is_waking;
use logforce_core::{Granted, OpenMode, ReplicaOptions, Replication};
use logforce_device::System;
use logforce_format::PageFileKind;
use std::path::Path;
use std::sync::Arc;

/// Page file that is open for reading and writing. Clones share it; any thread may call it.
///
/// Pages have the numbers 0, 1, 2 …. A page that was never written reads as zeroes. Transactions use snapshot
/// isolation: each sees the state in which it began. If two write the same page, the one that commits later
/// gets [`Error::Conflict`](crate::Error::Conflict).
#[derive(Clone)]
pub struct PageFile {
    handle: Arc<Handle>,
}

/// Closes the page file when its last clone is dropped.
struct Handle {
    store: Store,
}

impl PageFile {
    /// Opens the page file in the directory `path` of `system`, or creates it, as `mode` says.
    ///
    /// Recovers first. When this returns, every commit that was acknowledged as durable is there. A commit
    /// that was not acknowledged is there as a whole or not at all. Everything that is there is durable.
    ///
    /// # Errors
    /// [`Locked`](crate::Error::Locked), [`NoPageFile`](crate::Error::NoPageFile),
    /// [`AlreadyExists`](crate::Error::AlreadyExists); [`OtherOption`](crate::Error::OtherOption) if the file
    /// differs in an option that is fixed at its creation; [`Guarantee`](crate::Error::Guarantee) if the
    /// directory cannot give what [`Options::require`] asks for; [`Damaged`](crate::Error::Damaged),
    /// [`ForeignLog`](crate::Error::ForeignLog).
    pub fn open(
        system: &dyn System,
        path: impl AsRef<Path>,
        mode: OpenMode,
        options: Options,
    ) -> Result<PageFile> {
        let store = Store::open(system, path.as_ref(), mode, options)?;
        Ok(PageFile {
            handle: Arc::new(Handle { store }),
        })
    }

    fn store(&self) -> &Store {
        &self.handle.store
    }

    /// Begins a transaction on top of the latest committed state. Any number may be in progress at once.
    pub fn begin(&self) -> Result<Transaction> {
        Ok(Transaction::new(
            self.store().clone(),
            self.store().latest()?,
        ))
    }

    /// Runs `change` in a transaction and commits it durably. If another commit has changed one of its pages
    /// meanwhile, begins again from the state after that commit. Returns the result of `change`.
    ///
    /// `change` may run any number of times, so it should affect only its transaction. Nothing is locked
    /// while it runs: it may read the file and commit to it. If it returns an error, nothing is committed. If
    /// it changes nothing, nothing is committed either. Each further run follows a commit of another thread,
    /// so some thread always makes progress. A long change that meets short ones again and again may be
    /// delayed each time.
    ///
    /// Blocks the thread until the commit is durable.
    ///
    /// # Errors
    /// The errors of `change`, [`begin`](Self::begin) and [`Transaction::commit`], except
    /// [`Error::Conflict`](crate::Error::Conflict).
    pub fn transact<T>(&self, mut change: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        loop {
            let mut transaction = self.begin()?;
            let value = change(&mut transaction)?;
            match transaction.commit() {
                Err(Error::Conflict { .. }) => {}
                committed => return committed.map(|_| value),
            }
        }
    }

    /// Returns the durable state: what a crash now would leave.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.store().durable()?, self.page_size()))
    }

    /// Returns the latest committed state. A crash may undo some of it while commits are in flight, or with
    /// [`Policy::Write`](logforce_core::Policy::Write) or
    /// [`Policy::Interval`](logforce_core::Policy::Interval).
    pub fn latest(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.store().latest()?, self.page_size()))
    }

    /// Returns the size of a page in bytes.
    pub fn page_size(&self) -> u32 {
        self.store().header().page_size
    }

    /// Returns the commit mode.
    pub fn mode(&self) -> CommitMode {
        match self.store().header().kind {
            PageFileKind::CopyOnWrite(_) => CommitMode::CopyOnWrite,
            PageFileKind::Logged(_) => CommitMode::Logged,
        }
    }

    /// Returns true if each page has a checksum.
    pub fn has_checksums(&self) -> bool {
        self.store().header().checksums
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        self.store().path()
    }

    /// Returns the guarantee of a durable commit.
    pub fn guarantee(&self) -> Granted {
        self.store().guarantee()
    }

    /// Makes everything committed durable, and checkpoints. Afterwards the data file holds everything, and
    /// opening has nothing to redo.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace). A copy-on-write file also returns it if commits that had
    /// returned were rolled back since.
    pub fn checkpoint(&self) -> Result<()> {
        self.store().checkpoint()
    }

    /// Attaches a replica to the log of a logged page file, as
    /// [`Log::replicate`](logforce_core::Log::replicate) does. A copy needs a base copy of the pages as well
    /// ([`BaseReader`](crate::BaseReader)). A checkpoint does not truncate what the replica has not confirmed.
    ///
    /// # Errors
    /// [`OtherOption`](crate::Error::OtherOption) for a copy-on-write file, which has no log; those of
    /// `Log::replicate`.
    pub fn replicate(&self, options: ReplicaOptions) -> Result<Replication> {
        self.store().replicate(options)
    }

    /// Returns statistics since the page file was opened.
    pub fn stats(&self) -> Stats {
        self.store().stats()
    }

    /// Makes everything committed durable, and closes the page file. All clones return
    /// [`Error::Closed`](crate::Error::Closed) from then on. A logged file is not checkpointed: the next
    /// opening redoes what the data file does not hold.
    ///
    /// Dropping the last clone does the same, but cannot report a failure.
    pub fn close(self) -> Result<()> {
        self.store().close()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !is_waking() {
            let _ = self.store.close();
            return;
        }
        // A waker in this thread has dropped the last clone, and closing may wait for this thread. So another
        // thread closes the file. If none can be started, the file stays open until the process ends.
        let store = self.store.clone();
        let close = Box::new(move || drop(store.close()));
        let _ = self.store.runtime().spawn("logforce-close", close);
    }
}

impl std::fmt::Debug for PageFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageFile")
            .field("path", &self.path())
            .field("mode", &self.mode())
            .field("page_size", &self.page_size())
            .finish_non_exhaustive()
    }
}
