//! Common interface of the two commit modes.

use crate::changes::{Changes, Image, Purpose};
use crate::cow::{CowCommit, CowStore, CowView};
use crate::error::{Error, Result};
use crate::files::{DATA, DataDir};
use crate::header::HeaderSlots;
use crate::inspect::base::not_logged;
use crate::inspect::view::ReadOnlyView;
use crate::logged::{LoggedCommit, LoggedFile, LoggedStore, LoggedView};
use crate::options::{CommitMode, Options};
use crate::types::{Acknowledged, Stats};
use logforce_commit::lock_wait::wait_for_lock;
use logforce_core::{Granted, OpenMode, Policy, ReplicaOptions, Replication, refuse_in_waker};
use logforce_device::{Directory, Runtime, System};
use logforce_format::{PageFileHeader, PageFileKind, planted};
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

/// Open page file.
#[derive(Clone)]
pub(crate) enum Store {
    Cow(Arc<CowStore>),
    Logged(LoggedFile),
}

/// Committed state that a reader holds.
#[derive(Clone)]
pub(crate) enum View {
    Cow(CowView),
    Logged(LoggedView),
    /// State of a file that no program has open.
    ReadOnly(Arc<ReadOnlyView>),
}

/// Commit whose position is decided, and that may not be durable yet.
pub(crate) enum Pending {
    Cow(CowCommit),
    Logged(LoggedCommit),
}

impl Store {
    pub(crate) fn open(
        system: &dyn System,
        path: &Path,
        mode: OpenMode,
        options: Options,
    ) -> Result<Store> {
        options.check()?;
        let data_dir = wait_for_lock(
            &*system.runtime(),
            options.log.waits_for_lock(),
            |opened| matches!(opened, Err(Error::Locked { .. })),
            || DataDir::open(system, path, mode, options.log.modes()),
        )?;
        let guarantee = data_dir.guarantee(options.require, options.require_verdict)?;
        if !data_dir.has_data()? {
            data_dir.check_no_backup()?;
            if mode == OpenMode::OpenExisting {
                return Err(Error::NoPageFile {
                    path: path.to_owned(),
                    why: format!("its file '{DATA}' is missing"),
                });
            }
            return match options.mode.unwrap_or(CommitMode::Logged) {
                CommitMode::CopyOnWrite => {
                    if data_dir.has_log(system)? {
                        return Err(Error::NoPageFile {
                            path: path.to_owned(),
                            why: format!("it holds a log but no file '{DATA}'"),
                        });
                    }
                    Ok(Store::Cow(CowStore::create(data_dir, options, guarantee)?))
                }
                CommitMode::Logged => {
                    let store = LoggedStore::create(system, data_dir, options, guarantee)?;
                    Ok(Store::Logged(store))
                }
            };
        }
        if mode == OpenMode::CreateNew {
            return Err(Error::AlreadyExists {
                path: path.to_owned(),
            });
        }
        // A handle without direct I/O is enough: any kind of handle reads header slots past the cache where
        // possible.
        let header = HeaderSlots::load(&data_dir, data_dir.open_file(DATA, false)?)?.header;
        check_options(&data_dir, &header, &options)?;
        // A crash may have interrupted the creation between renaming the files and syncing the directory.
        if !planted!("page-names-unsynced") {
            data_dir.sync_names()?;
        }
        match header.kind {
            PageFileKind::CopyOnWrite(_) => {
                Ok(Store::Cow(CowStore::open(data_dir, options, guarantee)?))
            }
            PageFileKind::Logged(_) => {
                let store = LoggedStore::open(system, data_dir, options, guarantee)?;
                Ok(Store::Logged(store))
            }
        }
    }

    /// Returns the latest committed state, durable or not.
    pub(crate) fn latest(&self) -> Result<View> {
        Ok(match self {
            Store::Cow(store) => View::Cow(store.latest()?),
            Store::Logged(store) => View::Logged(store.latest()?),
        })
    }

    /// Returns the durable state.
    pub(crate) fn durable(&self) -> Result<View> {
        Ok(match self {
            Store::Cow(store) => View::Cow(store.durable()?),
            Store::Logged(store) => View::Logged(store.durable()?),
        })
    }

    /// Commits changes that were made on top of `view`, which must belong to this store. Blocks until the
    /// commit has what its policy promises.
    pub(crate) fn commit(
        &self,
        view: &View,
        changes: Changes,
        policy: Policy,
    ) -> Result<Acknowledged> {
        refuse_in_waker()?;
        match (self, view) {
            (Store::Cow(store), View::Cow(view)) => store.commit_and_wait(view, &changes, policy),
            (Store::Logged(store), View::Logged(view)) => store.commit(view, changes, policy),
            // Unreachable: a transaction keeps its own store and a view of that store.
            _ => Err(Error::Closed),
        }
    }

    /// Commits as [`Store::commit`], without waiting: decides the position of the commit, or refuses it.
    pub(crate) fn submit(&self, view: &View, changes: Changes, policy: Policy) -> Result<Pending> {
        refuse_in_waker()?;
        match (self, view) {
            (Store::Cow(store), View::Cow(view)) => {
                let commit = store.commit(view, &changes, policy, false)?;
                Ok(Pending::Cow(commit))
            }
            (Store::Logged(store), View::Logged(view)) => {
                Ok(Pending::Logged(store.submit(view, changes, policy)?))
            }
            _ => Err(Error::Closed),
        }
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        match self {
            Store::Cow(store) => store.header(),
            Store::Logged(store) => store.header(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Store::Cow(store) => store.path(),
            Store::Logged(store) => store.path(),
        }
    }

    pub(crate) fn guarantee(&self) -> Granted {
        match self {
            Store::Cow(store) => store.guarantee(),
            Store::Logged(store) => store.guarantee(),
        }
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        refuse_in_waker()?;
        match self {
            // Each commit of a copy-on-write file is a checkpoint.
            Store::Cow(store) => store.force(),
            Store::Logged(store) => store.checkpoint(),
        }
    }

    pub(crate) fn replicate(&self, options: ReplicaOptions) -> Result<Replication> {
        match self {
            Store::Cow(store) => Err(not_logged(store.path())),
            Store::Logged(store) => store.replicate(options),
        }
    }

    /// Returns the runtime, with its threads and clock.
    pub(crate) fn runtime(&self) -> &dyn Runtime {
        match self {
            Store::Cow(store) => store.runtime(),
            Store::Logged(store) => store.runtime(),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        match self {
            Store::Cow(store) => store.stats(),
            Store::Logged(store) => store.stats(),
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        refuse_in_waker()?;
        match self {
            Store::Cow(store) => store.close(),
            Store::Logged(store) => store.close(),
        }
    }
}

impl View {
    /// Returns the number of the last commit in the state.
    pub(crate) fn commit(&self) -> u64 {
        match self {
            View::Cow(view) => view.commit(),
            View::Logged(view) => view.commit(),
            View::ReadOnly(view) => view.commit(),
        }
    }

    /// Returns the exclusive end of the page numbers.
    pub(crate) fn page_count(&self) -> u64 {
        match self {
            View::Cow(view) => view.page_count(),
            View::Logged(view) => view.page_count(),
            View::ReadOnly(view) => view.page_count(),
        }
    }

    /// Returns the header of the file.
    pub(crate) fn header(&self) -> PageFileHeader {
        match self {
            View::Cow(view) => view.header(),
            View::Logged(view) => view.header(),
            View::ReadOnly(view) => view.header(),
        }
    }

    /// Returns the page file's directory.
    pub(crate) fn dir(&self) -> &dyn Directory {
        match self {
            View::Cow(view) => view.dir(),
            View::Logged(view) => view.dir(),
            View::ReadOnly(view) => view.dir(),
        }
    }

    /// Visits the numbers of the pages that may hold more than zeroes, in ascending order.
    pub(crate) fn each_number(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        match self {
            View::Cow(view) => view.each_number(visit),
            View::Logged(view) => view.each_number(visit),
            View::ReadOnly(view) => view.each_number(visit),
        }
    }

    /// Returns the contents of a page, whose number must be in range.
    pub(crate) fn image(&self, page: u64, purpose: Purpose) -> Result<Image> {
        match self {
            View::Cow(view) => view.image(page, purpose),
            View::Logged(view) => view.image(page, purpose),
            View::ReadOnly(view) => view.image(page),
        }
    }

    /// Reads a page as [`View::image`], into `buf`, which must have the size of a page.
    pub(crate) fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        match self {
            View::Cow(view) => view.read(page, buf),
            View::Logged(view) => view.read(page, buf),
            View::ReadOnly(view) => {
                buf.copy_from_slice(&view.image(page)?);
                Ok(())
            }
        }
    }
}

impl Pending {
    /// Waits until the commit has what its policy promises.
    pub(crate) fn wait(self) -> Result<Acknowledged> {
        refuse_in_waker()?;
        match self {
            Pending::Cow(commit) => commit.wait(),
            Pending::Logged(commit) => commit.wait(),
        }
    }

    /// Polls for what [`Pending::wait`] returns. If the commit is not finished, returns `None` and wakes
    /// `waker` later.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Option<Result<Acknowledged>> {
        match self {
            Pending::Cow(commit) => commit.poll(waker),
            Pending::Logged(commit) => commit.poll(waker),
        }
    }

    /// Returns the number of the commit.
    pub(crate) fn commit(&self) -> u64 {
        match self {
            Pending::Cow(commit) => commit.commit(),
            Pending::Logged(commit) => commit.commit(),
        }
    }
}

/// Checks that the options that are fixed at creation are as requested.
fn check_options(data_dir: &DataDir, header: &PageFileHeader, options: &Options) -> Result<()> {
    let other = |option, is: String, wanted: String| {
        Err(Error::OtherOption {
            path: data_dir.path.clone(),
            option,
            is,
            wanted,
        })
    };
    if let Some(size) = options.page_size
        && size != header.page_size
    {
        return other("page_size", header.page_size.to_string(), size.to_string());
    }
    if let Some(checksums) = options.checksums
        && checksums != header.checksums
    {
        return other(
            "checksums",
            header.checksums.to_string(),
            checksums.to_string(),
        );
    }
    let is = match header.kind {
        PageFileKind::CopyOnWrite(_) => CommitMode::CopyOnWrite,
        PageFileKind::Logged(_) => CommitMode::Logged,
    };
    if let Some(mode) = options.mode
        && mode != is
    {
        return other("mode", format!("{is:?}"), format!("{mode:?}"));
    }
    Ok(())
}
