//! The handle of a submission, to wait on, poll or await. Polling it makes no I/O, except in a callback of
//! the thread that would otherwise make the I/O. Dropping it changes nothing.

use crate::engine::Engine;
use crate::error::Result;
use crate::policy::{Policy, WaitLevel};
use crate::types::{Acknowledged, RecordRange};
use logforce_commit::sync::wakers::{WakerId, Wakers};
use logforce_device::Granted;
use logforce_format::{Lsn, planted};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A submitted record or batch. The log writes and forces it even if no caller waits for it. Wait for it in
/// a thread, poll it, or await it on any runtime. The handle does not keep the log open.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing for the record.
/// [`Log::durable_lsn`](crate::Log::durable_lsn) reaches [`CommitHandle::end`] when the record is durable.
/// Polled again after completion, it returns the result again.
#[must_use = "wait for the handle to know whether the record became durable"]
pub struct CommitHandle {
    engine: Arc<Engine>,
    start: Lsn,
    end: Lsn,
    /// Policy that all records below `end` must meet.
    policy: Policy,
    waker_id: Option<WakerId>,
    /// True if the record is durable here, and its task waits for the replica.
    lacks_replica: bool,
}

impl CommitHandle {
    /// Returns the handle of a record at `at` that must meet `policy`.
    pub(crate) fn new(engine: Arc<Engine>, at: RecordRange, policy: Policy) -> Self {
        CommitHandle {
            engine,
            start: at.start,
            end: at.end,
            policy,
            waker_id: None,
            lacks_replica: false,
        }
    }

    /// Returns the position of the record, or of the first one of a batch.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Returns the exclusive end.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Returns true if [`wait`](Self::wait) would return at once. Takes no lock.
    pub fn is_done(&self) -> bool {
        self.result().is_some()
    }

    /// Returns the result, if it is known.
    pub fn try_result(&self) -> Option<Result<Acknowledged>> {
        Some(self.result()?.map(|g| self.acknowledged(g)))
    }

    /// Waits in this thread, which may make the write itself.
    pub fn wait(self) -> Result<Acknowledged> {
        let guarantee = self.wait_here()?;
        Ok(self.acknowledged(guarantee))
    }

    fn acknowledged(&self, guarantee: Granted) -> Acknowledged {
        Acknowledged {
            start: self.start,
            end: self.end,
            guarantee,
        }
    }

    /// Returns the result, if it is known.
    fn result(&self) -> Option<Result<Granted>> {
        self.engine.result_of(self.policy, self.end)
    }

    fn wait_here(&self) -> Result<Granted> {
        if let Some(result) = self.result() {
            return result;
        }
        self.reach_level()?;
        if self.policy.is_replicated() {
            self.engine.wait_replicated(self.end)?;
        }
        Ok(self.engine.guarantee_of(self.policy, self.end))
    }

    /// Returns once the record has reached in this log what the policy requires there.
    fn reach_level(&self) -> Result<()> {
        match self.policy.level() {
            Some(level) => self.engine.wait_until_timed(self.end, level),
            None => Ok(()),
        }
    }

    /// Returns the tasks among which this handle waits.
    fn wakers(&self) -> &Wakers {
        match self.policy.level() {
            Some(WaitLevel::Write) => &self.engine.events.written_tasks,
            _ if self.lacks_replica => &self.engine.view.replicated.tasks,
            _ => &self.engine.view.wakers,
        }
    }

    /// Registers the task with what the record lacks: first the durable LSN, then the replicated one. A
    /// replica that ends before the record is durable wakes the task too early, and only once.
    fn register(&mut self, context: &Context<'_>) {
        loop {
            let durable = || self.engine.durable() >= self.end;
            let lacks_replica = self.policy.is_replicated()
                && planted!("waits-for-replica-alone", true, else durable());
            if lacks_replica != self.lacks_replica {
                self.deregister();
                self.lacks_replica = lacks_replica;
            }
            let mut id = self.waker_id;
            self.wakers().register(self.end.0, &mut id, context.waker());
            self.waker_id = id;
            // Otherwise the record has become durable before the registration.
            if self.lacks_replica
                || !self.policy.is_replicated()
                || self.engine.durable() < self.end
            {
                return;
            }
        }
    }

    fn deregister(&mut self) {
        if let Some(id) = self.waker_id.take() {
            self.wakers().deregister(id);
        }
    }

    fn poll_policy(&mut self, context: &Context<'_>) -> Poll<Result<Granted>> {
        if let Some(answer) = self.result() {
            return Poll::Ready(answer);
        }
        if self.engine.must_do_it_itself() && !planted!("writer-awaits-itself") {
            if let Err(e) = self.reach_level() {
                return Poll::Ready(Err(e));
            }
            // Only the replica can be missing now, and another thread moves that.
            if let Some(answer) = self.result() {
                return Poll::Ready(answer);
            }
        }
        self.register(context);
        if planted!("recheck-after-register") {
            return Poll::Pending;
        }
        // Checks again: the level may have been reached before the waker was registered.
        match self.result() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for CommitHandle {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl Future for CommitHandle {
    type Output = Result<Acknowledged>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_policy(context) {
            Poll::Ready(result) => Poll::Ready(result.map(|g| self.acknowledged(g))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for CommitHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitHandle")
            .field("start", &self.start)
            .field("end", &self.end)
            .field("done", &self.is_done())
            .finish()
    }
}
