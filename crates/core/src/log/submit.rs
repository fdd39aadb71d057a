//! Commits that return before the record is durable: with a handle to wait on, poll or await, or
//! with a callback. The writer thread writes and forces them; polling a handle does no I/O, and
//! dropping it changes nothing.

use crate::engine::Engine;
use crate::engine::append::set_deadline;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::policy::{Policy, WaitLevel};
use crate::state::State;
use crate::state::completions::{Call, Completion};
use crate::sync::wake::Wake;
use crate::sync::wakers::WakerId;
use crate::types::{Committed, RecordRange};
use logforce_device::Guarantee;
use logforce_device::sync::MutexGuard;
use logforce_format::{Lsn, planted};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A submitted record: it is staged, and the log writes and forces it as its policy says, whether
/// or not the caller waits. Wait for it in a thread, poll it, or await it on any runtime. It does
/// not keep the log open.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing for the record: the log writes and
/// forces it as its policy says. [`Log::durable_lsn`] reaches [`CommitHandle::end`] when it is
/// durable. Polled again after completion, it returns the result again.
#[must_use = "whether the record became durable is known by waiting for it"]
pub struct CommitHandle {
    start: Lsn,
    pending: Pending,
}

/// A force that was requested without waiting for it; see
/// [`Log::submit_force`](crate::Log::submit_force).
///
/// **Cancel safe.** Dropping it, polled or not, does not cancel the force. Polled again after
/// completion, it returns the result again.
#[must_use = "whether it was done is known by waiting for it"]
pub struct ForceHandle {
    pending: Pending,
}

/// What both handles wait for: an LSN.
struct Pending {
    engine: Arc<Engine>,
    end: Lsn,
    /// What everything below `end` must reach; `None` if being staged is enough.
    level: Option<WaitLevel>,
    waker_id: Option<WakerId>,
}

impl Pending {
    /// The result, if it is known.
    fn result(&self) -> Option<Result<Guarantee>> {
        let reached = match self.level {
            None => true,
            Some(WaitLevel::Write) => self.engine.written() >= self.end,
            Some(_) => self.engine.durable() >= self.end,
        };
        if reached {
            return Some(Ok(self.engine.guarantee_at(self.end)));
        }
        self.engine.check().err().map(Err)
    }

    fn wait(&self) -> Result<Guarantee> {
        if let Some(level) = self.level
            && self.result().is_none()
        {
            self.engine.wait_until_timed(self.end, level)?;
        }
        match self.result() {
            Some(answer) => answer,
            None => Ok(self.engine.guarantee_at(self.end)),
        }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Guarantee>> {
        if let Some(answer) = self.result() {
            return Poll::Ready(answer);
        }
        let wakers = match self.level {
            Some(WaitLevel::Write) => &self.engine.events.written_tasks,
            _ => &self.engine.view.wakers,
        };
        wakers.register(self.end, &mut self.waker_id, context.waker());
        if planted!("recheck-after-register") {
            return Poll::Pending;
        }
        // It may have been reached since the first check, when there was no waker to wake.
        match self.result() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            let wakers = match self.level {
                Some(WaitLevel::Write) => &self.engine.events.written_tasks,
                _ => &self.engine.view.wakers,
            };
            wakers.deregister(id);
        }
    }
}

impl CommitHandle {
    /// The record's position, by which it is read.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Exclusive end.
    pub fn end(&self) -> Lsn {
        self.pending.end
    }

    /// Whether [`wait`](Self::wait) would return at once. Takes no lock.
    pub fn is_done(&self) -> bool {
        self.pending.result().is_some()
    }

    /// The result, if it is known.
    pub fn try_result(&self) -> Option<Result<Committed>> {
        let result = self.pending.result()?;
        Some(result.map(|g| self.committed(g)))
    }

    /// Waits in this thread, which may do the writing itself.
    pub fn wait(self) -> Result<Committed> {
        let guarantee = self.pending.wait()?;
        Ok(self.committed(guarantee))
    }

    fn committed(&self, guarantee: Guarantee) -> Committed {
        Committed {
            start: self.start,
            end: self.pending.end,
            guarantee,
        }
    }
}

impl Future for CommitHandle {
    type Output = Result<Committed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.pending.poll(context) {
            Poll::Ready(result) => Poll::Ready(result.map(|g| self.committed(g))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl ForceHandle {
    /// Waits in this thread, which may do the writing itself.
    pub fn wait(self) -> Result<Guarantee> {
        self.pending.wait()
    }
}

impl Future for ForceHandle {
    type Output = Result<Guarantee>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pending.poll(context)
    }
}

impl std::fmt::Debug for CommitHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitHandle")
            .field("start", &self.start)
            .field("end", &self.pending.end)
            .field("done", &self.is_done())
            .finish()
    }
}

impl std::fmt::Debug for ForceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForceHandle")
            .field("end", &self.pending.end)
            .finish()
    }
}

/// A submission that waits for buffer or prepared space; see
/// [`Log::submit_async`](crate::Log::submit_async).
///
/// **Cancel safe.** If it is dropped before it has completed, the record is not in the log and
/// never will be. Once it has completed with a [`CommitHandle`], the record is submitted, and
/// dropping either of the two does not cancel it. So whether a cancelled
/// `log.submit_async(record).await?.await?` has submitted the record depends on which of the two
/// awaits was cancelled; keep the [`CommitHandle`] to tell.
///
/// # Panics
/// If it is polled again after it has completed, with a handle or with an error.
#[must_use = "nothing is submitted before it is polled"]
pub struct SubmitFuture<R> {
    engine: Arc<Engine>,
    policy: Policy,
    record: R,
    /// Since when this append has requested prepared space.
    asked: Option<u64>,
    waker_id: Option<WakerId>,
    /// It has completed: another poll would append the record a second time.
    completed: bool,
}

impl<R: AsRef<[u8]> + Unpin> Future for SubmitFuture<R> {
    type Output = Result<CommitHandle>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.completed, "`SubmitFuture` polled after completion");
        for last in [false, true] {
            let record: &[u8] = this.record.as_ref();
            // Set before a panic could leave it unset: the record may be staged by then.
            this.completed = true;
            let placed = this
                .engine
                .clone()
                .try_submit(&[&[record]], this.policy, &mut this.asked);
            match placed {
                Err(Error::WouldBlock) if last => this.completed = false,
                // Space may have been freed before there was a waker to wake.
                Err(Error::WouldBlock) => {
                    this.completed = false;
                    let wakers = &this.engine.events.space_tasks;
                    wakers.register(Lsn::ORIGIN, &mut this.waker_id, context.waker());
                    if planted!("recheck-room-after-register") {
                        break;
                    }
                }
                other => return Poll::Ready(other),
            }
        }
        Poll::Pending
    }
}

impl<R> Drop for SubmitFuture<R> {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            self.engine.events.space_tasks.deregister(id);
        }
    }
}

impl Log {
    /// Appends a record and returns a handle to wait on, poll or await. Waits only for buffer and
    /// prepared space, as [`Log::append`] does.
    pub fn submit(&self, record: &[u8]) -> Result<CommitHandle> {
        self.submit_with(record, self.engine().config.options.policy)
    }

    /// As [`Log::submit`], with a policy of its own.
    pub fn submit_with(&self, record: &[u8], policy: Policy) -> Result<CommitHandle> {
        self.engine_arc()
            .clone()
            .submit_records(&[&[record]], policy, |_, _| ())
    }

    /// Appends several records atomically, with one handle for all of them: from the first one's
    /// start to the last one's end.
    pub fn submit_all(&self, records: &[&[u8]]) -> Result<CommitHandle> {
        let parts: Vec<[&[u8]; 1]> = records.iter().map(|r| [*r]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        let policy = self.engine().config.options.policy;
        self.engine_arc()
            .clone()
            .submit_records(&parts, policy, |_, _| ())
    }

    /// As [`Log::submit`], but does not wait: without buffer or prepared space it returns
    /// [`Error::WouldBlock`], and has not accepted the record.
    pub fn try_submit(&self, record: &[u8]) -> Result<CommitHandle> {
        let policy = self.engine().config.options.policy;
        let engine = self.engine_arc().clone();
        // Round 0: the last failure to prepare a segment counts, whenever it was, since this call
        // does not wait for another attempt.
        let submitted = engine.try_submit(&[&[record]], policy, &mut Some(0));
        if let Err(Error::NoSpace { .. } | Error::Full { .. }) = &submitted {
            self.engine().try_preparing_again();
        }
        submitted
    }

    /// As [`Log::submit`], for a task: it waits for buffer and prepared space, and returns a handle
    /// to await for the result.
    pub fn submit_async<R: AsRef<[u8]> + Unpin>(&self, record: R) -> SubmitFuture<R> {
        SubmitFuture {
            engine: self.engine_arc().clone(),
            policy: self.engine().config.options.policy,
            record,
            asked: None,
            waker_id: None,
            completed: false,
        }
    }

    /// As [`Log::submit`], but calls `done` with the result instead of returning a handle. The
    /// writer thread calls it, in the order of the records, so a slow callback delays writes. A
    /// panic in it ends the callback and nothing else. It may append and commit, and drop or close
    /// the log; it must not wait for another thread that waits for this log.
    pub fn submit_then(
        &self,
        record: &[u8],
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) -> Result<RecordRange> {
        let policy = self.engine().config.options.policy;
        self.engine()
            .submit_then(&[&[record]], policy, Box::new(done))
    }

    /// As [`Log::submit_with`], for a record in several slices. Calls `decided` with the record's
    /// place while no other append can come before or after it: so it can put its own state into
    /// the order of the log. It must be short, and must not call the log.
    #[doc(hidden)]
    pub fn submit_ordered(
        &self,
        parts: &[&[u8]],
        policy: Policy,
        mut decided: impl FnMut(RecordRange),
    ) -> Result<CommitHandle> {
        let engine = self.engine_arc().clone();
        engine.submit_records(&[parts], policy, |start, end| {
            decided(RecordRange { start, end });
        })
    }

    /// As [`Log::append_parts`], and calls `decided` as [`Log::submit_ordered`] does.
    #[doc(hidden)]
    pub fn append_ordered(
        &self,
        parts: &[&[u8]],
        mut decided: impl FnMut(RecordRange),
    ) -> Result<()> {
        let decided = |start, end| decided(RecordRange { start, end });
        self.engine().append(&[parts], decided)
    }

    /// Requests that everything below `end` be made durable, without waiting.
    pub fn submit_force(&self, end: Lsn) -> Result<ForceHandle> {
        self.engine_arc().clone().submit_force(end)
    }
}

impl Engine {
    /// Stages the records, for the writer thread to write.
    pub(crate) fn submit_records(
        self: Arc<Self>,
        records: &[&[&[u8]]],
        policy: Policy,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<CommitHandle> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.stage(records, |start, end| {
            extend(&mut at, start, end);
            each(start, end);
        })?;
        let at = self.request_policy(state, wakeups, at, policy, now, None);
        Ok(self.submitted(at, policy))
    }

    /// As [`Engine::submit_records`], without waiting for space.
    pub(crate) fn try_submit(
        self: Arc<Self>,
        records: &[&[&[u8]]],
        policy: Policy,
        asked: &mut Option<u64>,
    ) -> Result<CommitHandle> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) =
            self.try_place(records, asked, |start, end| extend(&mut at, start, end))?;
        let at = self.request_policy(state, wakeups, at, policy, now, None);
        Ok(self.submitted(at, policy))
    }

    /// Stages the records, and registers `call` for when they have reached what the policy
    /// requires.
    pub(crate) fn submit_then(
        &self,
        records: &[&[&[u8]]],
        policy: Policy,
        call: Call,
    ) -> Result<RecordRange> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.stage(records, |start, end| extend(&mut at, start, end))?;
        Ok(self.request_policy(state, wakeups, at, policy, now, Some(call)))
    }

    pub(crate) fn submit_force(self: Arc<Self>, end: Lsn) -> Result<ForceHandle> {
        self.view.check_process()?;
        let mut wakeups = Wakeups::default();
        if self.durable() < end {
            self.check()?;
            let mut state = self.state();
            if end > state.tail() {
                let tail = state.tail();
                drop(state);
                self.poison.check()?;
                return Err(Error::BeyondEnd {
                    lsn: end,
                    end: tail,
                });
            }
            if let Some(outcome) = state.pipeline.catch_up(end) {
                self.publish(state, outcome);
            } else {
                state.pipeline.request(WaitLevel::Force, end);
                wakeups.writer = Wake::WriterForForce.if_needed(state.lacks_leader());
                drop(state);
            }
        }
        self.wake(wakeups);
        let level = Some(WaitLevel::Force);
        Ok(ForceHandle {
            pending: Pending {
                engine: self,
                end,
                level,
                waker_id: None,
            },
        })
    }

    fn submitted(self: Arc<Self>, at: RecordRange, policy: Policy) -> CommitHandle {
        CommitHandle {
            start: at.start,
            pending: Pending {
                engine: self,
                end: at.end,
                level: policy.level(),
                waker_id: None,
            },
        }
    }

    /// Requests what the policy requires of the records just staged, and releases the mutex.
    fn request_policy(
        &self,
        mut state: MutexGuard<'_, State>,
        mut wakeups: Wakeups,
        at: Option<RecordRange>,
        policy: Policy,
        now: Duration,
        call: Option<Call>,
    ) -> RecordRange {
        let at = at.unwrap_or(RecordRange {
            start: state.tail(),
            end: state.tail(),
        });
        wakeups.writer |= set_deadline(&mut state, at.end, policy, now);
        self.metrics.counted.submits.add_locked(1);
        if policy == Policy::Force {
            state.deadlines.oldest_submission.get_or_insert(now);
        }
        if let Some(level) = policy.level() {
            state.pipeline.request(level, at.end);
            wakeups.writer |= Wake::WriterForSubmission.if_needed(state.lacks_leader());
        }
        if let Some(call) = call {
            let level = policy.level();
            // Nothing to wait for: the writer calls it at once.
            wakeups.writer |= Wake::WriterForNewCallback.if_needed(level.is_none());
            state.completions.push(Completion { at, level, call });
        }
        drop(state);
        self.wake(wakeups);
        at
    }
}

/// Extends the range, from the first record's start to the last one's end.
fn extend(at: &mut Option<RecordRange>, start: Lsn, end: Lsn) {
    at.get_or_insert(RecordRange { start, end }).end = end;
}
