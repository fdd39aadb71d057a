//! Commits that become durable together.

use crate::error::{Error, Result};
use logforce_core::wake;
use logforce_device::Event;
use logforce_device::Runtime;
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

/// The commits that one header makes durable, or none of them. Who waits for one of them waits for
/// its group.
#[derive(Default)]
pub(crate) struct CommitGroup {
    /// Notified when it has an outcome, and when somebody should lead it.
    pub(crate) done: Event,
    state: Mutex<GroupState>,
    commits: AtomicU64,
    /// Bytes of its pages.
    bytes: AtomicU64,
    is_trusted: AtomicBool,
}

#[derive(Default)]
struct GroupState {
    outcome: Option<Result<()>>,
    wakers: BTreeMap<u64, Waker>,
    next_waker: u64,
}

impl CommitGroup {
    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of it, if that is known.
    pub(crate) fn outcome(&self) -> Option<Result<()>> {
        self.state().outcome.clone()
    }

    /// Decides it. [`CommitGroup::notify`] has to follow, without a lock held.
    pub(crate) fn decide(&self, outcome: Result<()>) {
        self.state().outcome.get_or_insert(outcome);
    }

    /// Wakes all that wait for it.
    pub(crate) fn notify(&self, runtime: &dyn Runtime) {
        self.done.notify(runtime);
        let wakers = std::mem::take(&mut self.state().wakers);
        wakers.into_values().for_each(wake);
    }

    /// The outcome, or `waker` is woken when there is one. `id` is the caller's registration.
    pub(crate) fn poll(&self, id: &mut Option<u64>, waker: &Waker) -> Option<Result<()>> {
        // Clones and drops wakers without the mutex, because both may run the executor's code.
        let mut waker = Some(waker.clone());
        let mut state = self.state();
        if state.outcome.is_none() {
            let id = *id.get_or_insert(state.next_waker);
            state.next_waker = state.next_waker.max(id + 1);
            waker = waker.and_then(|waker| state.wakers.insert(id, waker));
        }
        let outcome = state.outcome.clone();
        drop(state);
        drop(waker);
        outcome
    }

    /// Ends a registration.
    pub(crate) fn forget_waker(&self, id: u64) {
        let waker = self.state().wakers.remove(&id);
        // Outside of the lock: dropping it may run the executor's code.
        drop(waker);
    }

    /// Adds a commit with so many bytes of pages.
    pub(crate) fn add(&self, bytes: u64) {
        self.commits.fetch_add(1, SeqCst);
        self.bytes.fetch_add(bytes, SeqCst);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commits() == 0
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(SeqCst)
    }

    /// Bytes of its pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Somebody is told that a commit of it is accepted, before it has an outcome.
    pub(crate) fn trust(&self) {
        self.is_trusted.store(true, SeqCst);
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(SeqCst)
    }
}

/// The groups that have no outcome yet.
#[derive(Default)]
pub(crate) struct CommitGroups {
    /// The commits that the next header makes durable.
    pub(crate) open: Arc<CommitGroup>,
    /// Those that the leader is writing.
    in_flight: Option<Arc<CommitGroup>>,
    /// Commits were rolled back that somebody took for accepted, and nobody has heard of it yet.
    unreported: Option<Error>,
}

impl CommitGroups {
    /// The one whose outcome is that of everything committed so far; `None` if all is durable.
    pub(crate) fn last(&self) -> Option<Arc<CommitGroup>> {
        match self.open.is_empty() {
            true => self.in_flight.clone(),
            false => Some(self.open.clone()),
        }
    }

    /// Returns the group that the leader is writing.
    pub(crate) fn in_flight(&self) -> Option<Arc<CommitGroup>> {
        self.in_flight.clone()
    }

    /// Bytes of pages that are committed and not written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.open.bytes() + self.in_flight.as_ref().map_or(0, |group| group.bytes())
    }

    /// The leader takes the open one.
    pub(crate) fn begin_force(&mut self) -> Arc<CommitGroup> {
        let group = std::mem::take(&mut self.open);
        self.in_flight = Some(group.clone());
        group
    }

    /// The leader is done with it.
    pub(crate) fn end_force(&mut self) {
        self.in_flight = None;
    }

    /// Decides all of them. [`CommitGroup::notify`] has to follow for each, without a lock held.
    pub(crate) fn end(&mut self, outcome: &Result<()>) -> Vec<Arc<CommitGroup>> {
        let open = std::mem::take(&mut self.open);
        let groups: Vec<_> = self.in_flight.take().into_iter().chain([open]).collect();
        for group in &groups {
            if group.is_trusted() {
                self.unreported = outcome.clone().err();
            }
            group.decide(outcome.clone());
        }
        groups
    }

    /// The error of commits that were taken for accepted, once.
    pub(crate) fn take_unreported(&mut self) -> Result<()> {
        self.unreported.take().map_or(Ok(()), Err)
    }
}
