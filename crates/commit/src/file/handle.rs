//! Submitted commits: the handle to wait on or to await, and the file's thread.

use crate::file::error::{Error, Result};
use crate::file::shared::Shared;
use crate::file::wake::{WaitFor, Wake};
use crate::sync::wakers::WakerId;
use logforce_device::sync::{MutexGuard, thread_local};
use logforce_device::{Granted, JoinHandle, planted};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Acknowledgement of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Acknowledged {
    /// Failures that the committed writes survive now.
    pub guarantee: Granted,
}

thread_local! {
    /// File whose thread this is.
    static THREAD_OF: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

impl Shared {
    pub(super) fn acknowledged(&self) -> Acknowledged {
        Acknowledged {
            guarantee: self.forcing.by.granted(),
        }
    }

    /// Requests a commit of everything that is written, and starts the file's thread if there is none.
    pub(super) fn submit(self: &Arc<Self>) -> Result<CommitHandle> {
        self.check()?;
        let target = self.target();
        let handle = CommitHandle {
            shared: self.clone(),
            target,
            waker_id: None,
            is_counted: false,
        };
        if self.is_reached(target) {
            return Ok(handle);
        }
        self.requested.fetch_max(target, SeqCst);
        self.start_thread()?;
        self.events.work.notify(self.runtime(), Wake::Submitted);
        Ok(handle)
    }

    /// Leaves the commit of everything that is written to the file's thread, which begins the sync after half
    /// of the bound. Waits first if a commit that was left to it earlier has exceeded its bound.
    pub(super) fn commit_within(self: &Arc<Self>, bound: Duration) -> Result<()> {
        self.check()?;
        let target = self.target();
        let mut now = self.runtime.now();
        if !self.is_reached(target) {
            // After the writes were counted: the thread that takes this request covers them.
            let is_new = self.bounded.ask(now.saturating_add(bound / 2));
            self.start_thread()?;
            if is_new {
                self.events.work.notify(self.runtime(), Wake::Bounded);
            }
        }
        // A slow device slows the callers down, instead of breaking the bound of what was answered before.
        let is_reached = |target| self.is_reached(target);
        while let Some(overdue) = self.bounded.overdue(now, is_reached) {
            if planted!("file-bound-not-kept") {
                break;
            }
            self.commit_to(overdue, true)?;
            now = self.runtime.now();
        }
        self.bounded.note(target, now.saturating_add(bound));
        Ok(())
    }

    fn start_thread(self: &Arc<Self>) -> Result<()> {
        // Of two first submissions only one starts a thread. The other one waits for the outcome: if it went
        // on without a thread, its task would never be woken.
        let _starting = self.starting.lock();
        if self.thread().is_some() {
            return Ok(());
        }
        let shared = self.clone();
        let body = Box::new(move || shared.commit_submissions());
        let started = self.runtime.spawn("logforce-file", body);
        let started = started.map_err(Error::io("start a thread for", &self.path))?;
        *self.thread() = Some(started);
        Ok(())
    }

    fn thread(&self) -> MutexGuard<'_, Option<Box<dyn JoinHandle>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs in the file's thread: makes requested commits durable, until the file is closed or has failed.
    fn commit_submissions(&self) {
        THREAD_OF.with(|file| file.set(self));
        loop {
            let seen = self.events.work.observe();
            // Before the requests: the end comes after the last submission. Otherwise that one could be missed.
            let mut ends = self.closing.load(SeqCst);
            let target = self.requested.load(SeqCst);
            if !self.is_reached(target) {
                // An error has poisoned the file and woken all tasks. The commit counts where it is waited
                // for.
                if self.commit_to(target, false).is_err() {
                    return;
                }
                continue;
            }
            if planted!("file-ends-before-the-last-submission") {
                ends = self.closing.load(SeqCst);
            }
            let due_in = self.bounded.due_in(self.runtime.now());
            if due_in.is_some_and(|left| left.is_zero() || ends) {
                self.bounded.begin();
                if self.commit_to(self.target(), false).is_err() {
                    return;
                }
                continue;
            }
            if ends {
                return;
            }
            self.events
                .work
                .wait(self.runtime(), seen, due_in, WaitFor::Work);
        }
    }

    /// Ends the file's thread, after it has made all submissions durable.
    pub(super) fn end_thread(&self) {
        // The threads of a forked child's parent do not run in the child.
        if !self.is_own_process() {
            return;
        }
        self.closing.store(true, SeqCst);
        self.events.work.notify(self.runtime(), Wake::Closed);
        let thread = self.thread().take();
        // A waker that this thread calls may drop the file. The thread ends by itself then.
        let is_own = THREAD_OF.with(|file| std::ptr::eq(file.get(), self));
        if let Some(thread) = thread.filter(|_| !is_own) {
            let _ = thread.join();
        }
    }
}

/// Commit that was submitted. The file makes it durable even if no caller waits for it. Wait for it in a
/// thread, poll it, or await it on any runtime.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing for the commit. It keeps the lock of the
/// file, but not its thread, which makes all submissions durable before it ends.
#[must_use = "wait for the handle to know whether the writes became durable"]
pub struct CommitHandle {
    shared: Arc<Shared>,
    target: u64,
    waker_id: Option<WakerId>,
    /// True if the statistics contain this commit.
    is_counted: bool,
}

impl CommitHandle {
    /// Returns true if [`wait`](Self::wait) would return at once. Takes no lock.
    pub fn is_done(&self) -> bool {
        self.shared.is_reached(self.target)
            || self.shared.poison.is_set()
            || !self.shared.is_own_process()
    }

    /// Returns the result, if it is known.
    pub fn try_result(&mut self) -> Option<Result<Acknowledged>> {
        let result = match self.shared.is_reached(self.target) {
            true => Ok(()),
            // No thread of a forked child's parent makes this commit in the child.
            false => Err(self
                .shared
                .check_fork()
                .and_then(|()| self.shared.check_poison())
                .err()?),
        };
        Some(result.map(|()| self.acknowledged()))
    }

    /// Waits in this thread, which may make the sync itself.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a write or a sync has failed.
    pub fn wait(mut self) -> Result<Acknowledged> {
        if let Some(result) = self.try_result() {
            return result;
        }
        self.shared.check()?;
        self.shared.commit_to(self.target, true)?;
        Ok(self.acknowledged())
    }

    fn acknowledged(&mut self) -> Acknowledged {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.shared.metrics.counted.commits.add(1);
        }
        self.shared.acknowledged()
    }

    fn deregister(&mut self) {
        if let Some(id) = self.waker_id.take() {
            self.shared.events.tasks.deregister(id);
        }
    }
}

impl Future for CommitHandle {
    type Output = Result<Acknowledged>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.try_result() {
            self.deregister();
            return Poll::Ready(result);
        }
        let mut id = self.waker_id;
        let tasks = &self.shared.events.tasks;
        tasks.register(self.target, &mut id, context.waker());
        self.waker_id = id;
        if planted!("file-recheck-after-register") {
            return Poll::Pending;
        }
        // Checks again: the horizon may have moved before the waker was registered.
        match self.try_result() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl Drop for CommitHandle {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl std::fmt::Debug for CommitHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitHandle")
            .field("path", &self.shared.path)
            .field("done", &self.is_done())
            .finish()
    }
}
