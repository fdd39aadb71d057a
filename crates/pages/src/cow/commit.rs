//! Commit in memory: checks for conflicts, applies the changes to the latest tree, and joins the open group.
//! `force` makes the group durable.

use crate::changes::{Change, Changes, Image};
use crate::cow::commit_group::CommitGroup;
use crate::cow::node_store::NodeStore;
use crate::cow::standing::Wanted;
use crate::cow::state::CommittedState;
use crate::cow::store::{Counts, CowStore};
use crate::cow::tree::{FreshPage, Link, Nodes};
use crate::cow::view::CowView;
use crate::error::{Error, Result};
use crate::types::Acknowledged;
use logforce_core::{Granted, Policy};
use logforce_format::{TableEntry, place_crc, planted};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

/// Number of pages above which a transaction is applied to the latest state without the mutex. It is applied
/// again under the mutex only if another commit came first.
const PREPARED_FROM: usize = 16;

/// Commit whose position in the order is decided.
pub(crate) struct CowCommit {
    store: Arc<CowStore>,
    commit: u64,
    /// Group that makes the commit durable; `None` if nothing was left to make durable.
    group: Option<Arc<CommitGroup>>,
    /// True if the caller waits until the commit is durable.
    is_forced: bool,
    waker: Option<u64>,
}

/// Changes that are ready to be applied to a state.
struct Draft<'a> {
    changes: &'a Changes,
    links: Vec<(u64, Link)>,
    bytes: u64,
}

impl Draft<'_> {
    fn new(changes: &Changes, checksums: bool) -> Draft<'_> {
        let mut bytes = 0;
        let mut link = |change: &Change| match change {
            Change::Discard => Link::None,
            Change::Write { image, .. } => {
                bytes += image.len() as u64;
                Link::Page(Arc::new(FreshPage {
                    image: image.clone(),
                    crc: if checksums { place_crc(image) } else { 0 },
                    home: OnceLock::new(),
                }))
            }
        };
        let links = changes.pages.iter().map(|(page, c)| (*page, link(c)));
        let links = links.collect();
        Draft {
            changes,
            links,
            bytes,
        }
    }

    fn on<N: Nodes>(
        &self,
        nodes: &N,
        page_size: u32,
        state: &CommittedState,
    ) -> std::result::Result<CommittedState, N::Error> {
        let mut tree = state.tree.clone();
        let cut = self.changes.resize.drop_from;
        if cut < state.page_count {
            tree = tree.truncate(nodes, page_size, cut)?;
        }
        Ok(CommittedState {
            tree: tree.with(nodes, page_size, &self.links)?,
            page_count: self.changes.page_count(state.page_count),
            commit: state.commit,
        })
    }
}

/// Nodes from memory only, for use under the mutex.
struct InMemory<'a> {
    medium: &'a NodeStore,
    loaded: &'a HashMap<u64, Image>,
    header: u64,
}

/// Error for a node that must be read first.
struct Missing;

impl Nodes for InMemory<'_> {
    type Error = Missing;

    fn node(&self, at: TableEntry) -> std::result::Result<Image, Missing> {
        let loaded = self.loaded.get(&at.place).cloned();
        loaded
            .or_else(|| self.medium.cache.get(at.place))
            .ok_or(Missing)
    }

    fn held_header(&self) -> u64 {
        self.header
    }
}

/// Nodes from memory or from the file. They are kept here even if the cache evicts them.
struct Loading<'a> {
    medium: &'a NodeStore,
    loaded: RefCell<HashMap<u64, Image>>,
    header: u64,
}

impl Nodes for Loading<'_> {
    type Error = Error;

    fn node(&self, at: TableEntry) -> Result<Image> {
        let image = self.medium.node(at)?;
        self.loaded.borrow_mut().insert(at.place, image.clone());
        Ok(image)
    }

    fn held_header(&self) -> u64 {
        self.header
    }
}

/// Changes applied to a state that may still be the latest one.
struct Prepared {
    /// Number of the state's commit, and number of the current header.
    on: (u64, u64),
    version: CommittedState,
}

impl CowStore {
    /// Commits and waits. A full disk refuses all commits that would have become durable together. A refused
    /// commit is then tried alone.
    pub(crate) fn commit_and_wait(
        self: &Arc<Self>,
        view: &CowView,
        changes: &Changes,
        policy: Policy,
    ) -> Result<Acknowledged> {
        loop {
            let commit = self.commit(view, changes, policy, true)?;
            let group = commit.group.clone();
            let result = commit.wait();
            let is_refused = matches!(result, Err(Error::NoSpace { .. } | Error::Io { .. }));
            let was_alone = group.is_none_or(|group| group.commits() == 1);
            if !is_refused || was_alone {
                return result;
            }
        }
    }

    /// Decides the order of a commit of changes that were made on top of `view`, or refuses the commit.
    pub(crate) fn commit(
        self: &Arc<Self>,
        view: &CowView,
        changes: &Changes,
        policy: Policy,
        is_awaited: bool,
    ) -> Result<CowCommit> {
        self.check_process()?;
        let within = match policy {
            Policy::Write {
                force_within: within,
            }
            | Policy::Interval { within } => Some(within),
            _ => None,
        };
        if changes.is_empty() {
            return self.commit_nothing(view, within.is_none(), is_awaited);
        }
        let draft = Draft::new(changes, self.medium.checksums);
        self.wait_for_dirty_limit();
        let now = within.map(|_| self.runtime().now());
        let mut loaded = HashMap::new();
        // The place of a loaded node is not reused while a view of its state is held. Dropping a view locks
        // the mutex, so no view is dropped while this thread holds it.
        let mut views = Vec::new();
        let mut prepared = None;
        if draft.links.len() > PREPARED_FROM {
            prepared = Some(self.prepare(&draft, &mut loaded, &mut views)?);
        }
        loop {
            let mut state = self.lock();
            state.check()?;
            state.check_base(view.commit())?;
            if let Some(group) = state.in_the_way() {
                drop(state);
                // The committers of the group learn its outcome, so it is ignored here.
                drop(self.wait_for(&group));
                continue;
            }
            if let Some(page) = state.conflicts.find(view.commit(), changes)
                && !planted!("cow-conflict-missed")
            {
                Counts::add(&self.counts.conflicts, 1);
                return Err(Error::Conflict { page });
            }
            let is_latest = |p: &Prepared| p.on == (state.latest.commit, state.header_number);
            let version = match prepared.take().filter(is_latest) {
                Some(prepared) => Ok(prepared.version),
                None => {
                    let nodes = InMemory {
                        medium: &self.medium,
                        loaded: &loaded,
                        header: state.header_number,
                    };
                    draft.on(&nodes, self.medium.page_size, &state.latest)
                }
            };
            let Ok(mut version) = version else {
                drop(state);
                prepared = Some(self.prepare(&draft, &mut loaded, &mut views)?);
                continue;
            };
            let commit = state.next_commit;
            state.next_commit += 1;
            version.commit = commit;
            let before = state.committed(version);
            state.conflicts.record(commit, changes);
            let group = state.groups.open.clone();
            group.add(draft.bytes);
            let mut calls = false;
            match (within, now) {
                (Some(within), Some(now)) => {
                    group.trust();
                    calls = state.schedule.force_by(now, within);
                }
                _ if !is_awaited => calls = state.schedule.want(),
                _ => {}
            }
            drop(state);
            // Dropped without the mutex, because freeing its memory may take long.
            drop(before);
            Counts::add(&self.counts.commits, 1);
            Counts::add(&self.counts.pages, draft.links.len() as u64);
            if calls {
                self.work.notify(self.runtime());
            }
            return Ok(CowCommit {
                store: self.clone(),
                commit,
                group: Some(group),
                is_forced: within.is_none(),
                waker: None,
            });
        }
    }

    /// Applies the changes to the latest state without the mutex, and loads the nodes that this needs.
    fn prepare(
        self: &Arc<Self>,
        draft: &Draft<'_>,
        loaded: &mut HashMap<u64, Image>,
        views: &mut Vec<CowView>,
    ) -> Result<Prepared> {
        let latest = CowView::of(self, Wanted::Latest)?;
        let nodes = Loading {
            medium: &self.medium,
            loaded: RefCell::default(),
            header: latest.header_number(),
        };
        let version = draft.on(&nodes, self.medium.page_size, latest.version())?;
        loaded.extend(nodes.loaded.into_inner());
        let on = (latest.commit(), latest.header_number());
        views.push(latest);
        Ok(Prepared { on, version })
    }

    /// Commits a transaction without changes. Its commit is durable once everything committed so far is.
    fn commit_nothing(
        self: &Arc<Self>,
        view: &CowView,
        is_forced: bool,
        is_awaited: bool,
    ) -> Result<CowCommit> {
        let mut state = self.lock();
        state.check()?;
        state.check_base(view.commit())?;
        let (commit, group) = (state.latest.commit, state.groups.last());
        let calls = group.is_some() && is_forced && !is_awaited && !state.groups.open.is_empty();
        if calls {
            state.schedule.want();
        }
        drop(state);
        if calls {
            self.work.notify(self.runtime());
        }
        Ok(CowCommit {
            store: self.clone(),
            commit,
            group,
            is_forced,
            waker: None,
        })
    }

    /// Waits until the bytes that are committed and not written fall below the limit.
    fn wait_for_dirty_limit(&self) {
        loop {
            let state = self.lock();
            if state.groups.dirty_bytes() < self.most_dirty {
                return;
            }
            let Some(group) = state.groups.last() else {
                return;
            };
            drop(state);
            Counts::add(&self.counts.waits, 1);
            // The committers of the group learn its outcome. Their failure does not refuse this commit.
            drop(self.wait_for(&group));
        }
    }
}

impl CowCommit {
    fn committed(&self, guarantee: Granted) -> Acknowledged {
        Acknowledged {
            commit: self.commit,
            guarantee,
        }
    }

    /// Returns the result, if it is known by now.
    fn now(&self) -> Option<Result<Acknowledged>> {
        let durable = self.committed(self.store.guarantee);
        let Some(group) = &self.group else {
            return Some(Ok(durable));
        };
        match group.outcome() {
            Some(outcome) => Some(outcome.map(|()| durable)),
            None if self.is_forced => None,
            None => Some(Ok(self.committed(logforce_core::Guarantee::Nothing.into()))),
        }
    }

    pub(crate) fn wait(self) -> Result<Acknowledged> {
        match (self.now(), &self.group) {
            (None, Some(group)) => {
                self.store.wait_for(group)?;
                Ok(self.committed(self.store.guarantee))
            }
            (Some(result), _) => result,
            (None, None) => Ok(self.committed(self.store.guarantee)),
        }
    }

    /// Does no I/O: the background thread does it.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Option<Result<Acknowledged>> {
        if let Some(result) = self.now() {
            return Some(result);
        }
        let outcome = self.group.as_ref()?.poll(&mut self.waker, waker)?;
        Some(outcome.map(|()| self.committed(self.store.guarantee)))
    }

    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }
}

impl Drop for CowCommit {
    fn drop(&mut self) {
        if let (Some(group), Some(id)) = (&self.group, self.waker) {
            group.forget_waker(id);
        }
    }
}
