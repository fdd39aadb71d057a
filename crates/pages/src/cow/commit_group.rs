//! Groups of commits that become durable together.

use crate::error::{Error, Result};
use logforce_commit::sync::wakers::wake;
use logforce_device::Event;
use logforce_device::Runtime;
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

/// Commits that one header makes durable, all or none. A thread that waits for one of them waits for the
/// group.
#[derive(Default)]
pub(crate) struct CommitGroup {
    /// Notified when the group has an outcome, and when a waiting thread should lead it.
    pub(crate) done: Event,
    state: Mutex<GroupState>,
    commits: AtomicU64,
    /// Bytes of the group's pages.
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

    /// Returns the outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Result<()>> {
        self.state().outcome.clone()
    }

    /// Sets the outcome, unless it is set. [`CommitGroup::notify`] must follow, without a lock held.
    pub(crate) fn decide(&self, outcome: Result<()>) {
        self.state().outcome.get_or_insert(outcome);
    }

    /// Wakes all threads and tasks that wait for the group.
    pub(crate) fn notify(&self, runtime: &dyn Runtime) {
        self.done.notify(runtime);
        let wakers = std::mem::take(&mut self.state().wakers);
        wakers.into_values().for_each(wake);
    }

    /// Returns the outcome, or wakes `waker` once there is one. `id` is the caller's registration.
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

    /// Removes a registration.
    pub(crate) fn forget_waker(&self, id: u64) {
        let waker = self.state().wakers.remove(&id);
        // Drops the waker without the lock, because that may run the executor's code.
        drop(waker);
    }

    /// Adds a commit with `bytes` bytes of pages.
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

    /// Returns the bytes of the group's pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Records that a commit of the group is reported as accepted before the group has an outcome.
    pub(crate) fn trust(&self) {
        self.is_trusted.store(true, SeqCst);
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(SeqCst)
    }
}

/// Groups that have no outcome yet.
#[derive(Default)]
pub(crate) struct CommitGroups {
    /// Group of the commits that the next header makes durable.
    pub(crate) open: Arc<CommitGroup>,
    /// Group that the leader is writing.
    in_flight: Option<Arc<CommitGroup>>,
    /// Error of accepted commits that were rolled back, until it is reported.
    unreported: Option<Error>,
}

impl CommitGroups {
    /// Returns the group whose outcome is that of everything committed so far, or `None` if everything is
    /// durable.
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

    /// Returns the bytes of pages that are committed and not written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.open.bytes() + self.in_flight.as_ref().map_or(0, |group| group.bytes())
    }

    /// Hands the open group to the leader.
    pub(crate) fn begin_force(&mut self) -> Arc<CommitGroup> {
        let group = std::mem::take(&mut self.open);
        self.in_flight = Some(group.clone());
        group
    }

    /// Records that the leader is done with its group.
    pub(crate) fn end_force(&mut self) {
        self.in_flight = None;
    }

    /// Sets the outcome of all groups. [`CommitGroup::notify`] must follow for each, without a lock held.
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

    /// Returns, only once, the error of accepted commits that were rolled back.
    pub(crate) fn take_unreported(&mut self) -> Result<()> {
        self.unreported.take().map_or(Ok(()), Err)
    }
}
