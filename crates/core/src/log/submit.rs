//! Commits that nobody waits for in a thread: handles to wait on, poll or await, and callbacks. The
//! log's own thread writes and forces them; a handle does no I/O, and dropping it changes nothing.

use crate::engine::Engine;
use crate::engine::append::set_deadline;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::policy::{Policy, SyncLevel};
use crate::state::State;
use crate::state::completions::{Call, Completion};
use crate::sync::wake::Wake;
use crate::sync::wakers::Place;
use crate::types::{Committed, RecordRange};
use logforce_device::Guarantee;
use logforce_device::sync::MutexGuard;
use logforce_format::{Lsn, planted};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A record that was submitted: staged, and on its way to what its policy promises whether or not
/// anybody looks. Wait for it in a thread, poll it, or await it on any runtime. It does not keep the
/// log open.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing but that nobody is told: the record
/// is written and forced as its policy says. Whether it was is then known by
/// [`Log::durable_lsn`] having reached [`CommitHandle::end`]. Polled again after completion it answers
/// again.
#[must_use = "whether the record became durable is known by waiting for it"]
pub struct CommitHandle {
    start: Lsn,
    pending: Pending,
}

/// A force that was asked for and not waited for; see [`Log::submit_force`](crate::Log::submit_force).
///
/// **Cancel safe.** Dropping it, polled or not, does not take back the force: it is done, and nobody
/// is told. Polled again after completion it answers again.
#[must_use = "whether it was done is known by waiting for it"]
pub struct ForceHandle {
    pending: Pending,
}

/// What both have in common: an LSN to be reached.
struct Pending {
    engine: Arc<Engine>,
    end: Lsn,
    /// How far it is to be brought; `None` if staging it was all.
    level: Option<SyncLevel>,
    place: Option<Place>,
}

impl Pending {
    /// The guarantee, once it is there.
    fn look(&self) -> Option<Result<Guarantee>> {
        let reached = match self.level {
            None => true,
            Some(SyncLevel::Write) => self.engine.written() >= self.end,
            Some(_) => self.engine.durable() >= self.end,
        };
        if reached {
            return Some(Ok(self.engine.guarantee_at(self.end)));
        }
        self.engine.check().err().map(Err)
    }

    fn wait(&self) -> Result<Guarantee> {
        if let Some(level) = self.level
            && self.look().is_none()
        {
            self.engine.wait_until_timed(self.end, level)?;
        }
        match self.look() {
            Some(answer) => answer,
            None => Ok(self.engine.guarantee_at(self.end)),
        }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Guarantee>> {
        if let Some(answer) = self.look() {
            return Poll::Ready(answer);
        }
        let wakers = match self.level {
            Some(SyncLevel::Write) => &self.engine.events.written_tasks,
            _ => &self.engine.view.wakers,
        };
        wakers.register(self.end, &mut self.place, context.waker());
        if planted!("recheck-after-register") {
            return Poll::Pending;
        }
        // It may have been reached since the first look, when there was no waker to wake.
        match self.look() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let wakers = match self.level {
                Some(SyncLevel::Write) => &self.engine.events.written_tasks,
                _ => &self.engine.view.wakers,
            };
            wakers.forget(place);
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

    /// Whether waiting would return at once. Takes no lock.
    pub fn is_done(&self) -> bool {
        self.pending.look().is_some()
    }

    /// The result, if it is there.
    pub fn try_result(&self) -> Option<Result<Committed>> {
        let result = self.pending.look()?;
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

/// A submission that waits for room; see [`Log::submit_async`](crate::Log::submit_async).
///
/// **Cancel safe.** Dropped before it has completed, nothing was submitted, and nothing will be: the
/// record is not in the log. Once it has completed with [`CommitHandle`], the record is on its way, and
/// dropping either of the two does not take it back. So a cancelled
/// `log.submit_async(record).await?.await?` has submitted the record or it has not, by which of the
/// two it was cancelled in; to tell, keep the [`CommitHandle`] in between.
///
/// # Panics
/// If it is polled again after it has completed, with a record or with an error.
#[must_use = "nothing is submitted before it is polled"]
pub struct SubmitFuture<R> {
    engine: Arc<Engine>,
    policy: Policy,
    record: R,
    /// When prepared space was asked for.
    asked: Option<u64>,
    place: Option<Place>,
    /// It was submitted, or refused: another poll must not append the record a second time.
    completed: bool,
}

impl<R: AsRef<[u8]> + Unpin> Future for SubmitFuture<R> {
    type Output = Result<CommitHandle>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.completed, "`SubmitFuture` polled after completion");
        for last in [false, true] {
            let record: &[u8] = this.record.as_ref();
            // Also if what follows unwinds: the record may have been placed by then.
            this.completed = true;
            let placed = this
                .engine
                .clone()
                .try_submit(&[&[record]], this.policy, &mut this.asked);
            match placed {
                Err(Error::WouldBlock) if last => this.completed = false,
                // Room may have come before there was a waker to wake.
                Err(Error::WouldBlock) => {
                    this.completed = false;
                    let wakers = &this.engine.events.space_tasks;
                    wakers.register(Lsn::ORIGIN, &mut this.place, context.waker());
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
        if let Some(place) = self.place {
            self.engine.events.space_tasks.forget(place);
        }
    }
}

impl Log {
    /// Appends a record and returns at once with a handle to wait on, poll or await. Waits only for
    /// room, as [`Log::append`] does.
    pub fn submit(&self, record: &[u8]) -> Result<CommitHandle> {
        self.submit_with(record, self.engine().config.options.policy)
    }

    /// As [`Log::submit`], with a policy of its own.
    pub fn submit_with(&self, record: &[u8], policy: Policy) -> Result<CommitHandle> {
        self.engine_arc().clone().submit(&[&[record]], policy)
    }

    /// Appends several records atomically, with one handle for all of them: from the first one's
    /// start to the last one's end.
    pub fn submit_all(&self, records: &[&[u8]]) -> Result<CommitHandle> {
        let parts: Vec<[&[u8]; 1]> = records.iter().map(|r| [*r]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|p| &p[..]).collect();
        let policy = self.engine().config.options.policy;
        self.engine_arc().clone().submit(&parts, policy)
    }

    /// As [`Log::submit`]; where there is no room it answers [`Error::WouldBlock`] instead of
    /// waiting, and nothing was accepted.
    pub fn try_submit(&self, record: &[u8]) -> Result<CommitHandle> {
        let policy = self.engine().config.options.policy;
        let engine = self.engine_arc().clone();
        // Any failure to prepare space counts that no success has followed: this call does not wait
        // for another attempt.
        let submitted = engine.try_submit(&[&[record]], policy, &mut Some(0));
        if let Err(Error::NoSpace { .. } | Error::Full { .. }) = &submitted {
            self.engine().try_preparing_again();
        }
        submitted
    }

    /// As [`Log::submit`], to await: the task waits for room. What it yields is awaited in turn for
    /// the result.
    pub fn submit_async<R: AsRef<[u8]> + Unpin>(&self, record: R) -> SubmitFuture<R> {
        SubmitFuture {
            engine: self.engine_arc().clone(),
            policy: self.engine().config.options.policy,
            record,
            asked: None,
            place: None,
            completed: false,
        }
    }

    /// As [`Log::submit`], and calls `done` with the result instead of handing out a handle. It is
    /// called in the log's writing thread, in the order of the records: what it does there delays
    /// writes. A panic in it ends it and nothing else. It may append and commit, and drop or close
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

    /// Asks for everything below `end` to be made durable, without waiting.
    pub fn submit_force(&self, end: Lsn) -> Result<ForceHandle> {
        self.engine_arc().clone().submit_force(end)
    }
}

impl Engine {
    /// Stages, and leaves the rest to the log's thread.
    pub(crate) fn submit(
        self: Arc<Self>,
        records: &[&[&[u8]]],
        policy: Policy,
    ) -> Result<CommitHandle> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.place(records, |start, end| note(&mut at, start, end))?;
        let at = self.leave(state, wakeups, at, policy, now, None);
        Ok(self.submitted(at, policy))
    }

    /// As [`Engine::submit`], without waiting for room.
    pub(crate) fn try_submit(
        self: Arc<Self>,
        records: &[&[&[u8]]],
        policy: Policy,
        asked: &mut Option<u64>,
    ) -> Result<CommitHandle> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) =
            self.try_place(records, asked, |start, end| note(&mut at, start, end))?;
        let at = self.leave(state, wakeups, at, policy, now, None);
        Ok(self.submitted(at, policy))
    }

    /// Stages, and has `call` called once it is where the policy wants it.
    pub(crate) fn submit_then(
        &self,
        records: &[&[&[u8]]],
        policy: Policy,
        call: Call,
    ) -> Result<RecordRange> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.place(records, |start, end| note(&mut at, start, end))?;
        Ok(self.leave(state, wakeups, at, policy, now, Some(call)))
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
                state.pipeline.request(SyncLevel::Force, end);
                wakeups.writer = !state.pipeline.leader.is_awaited
                    && state.has_job()
                    && !Wake::WriterForForce.is_forgotten();
                drop(state);
            }
        }
        self.wake(wakeups);
        let level = Some(SyncLevel::Force);
        Ok(ForceHandle {
            pending: Pending {
                engine: self,
                end,
                level,
                place: None,
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
                place: None,
            },
        }
    }

    /// Says what is wanted of the records just staged, and releases the mutex.
    fn leave(
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
        self.metrics.counting.submits.add_alone(1);
        if policy == Policy::Force {
            state.deadlines.oldest_submission.get_or_insert(now);
        }
        if let Some(level) = policy.level() {
            state.pipeline.request(level, at.end);
            wakeups.writer |= !state.pipeline.leader.is_awaited
                && state.has_job()
                && !Wake::WriterForSubmission.is_forgotten();
        }
        if let Some(call) = call {
            let level = policy.level();
            // Nothing to wait for: it is called at once.
            wakeups.writer |= level.is_none() && !Wake::WriterForNewCallback.is_forgotten();
            state.completions.push(Completion { at, level, call });
        }
        drop(state);
        self.wake(wakeups);
        at
    }

    /// Calls what is due; everything, with an error where need be, once the log has ended. In the
    /// log's own thread, one after another in the order of the records.
    pub(crate) fn call_back(&self, ended: bool) {
        loop {
            let due = {
                let state = &mut *self.state();
                state.completions.take_due(&state.pipeline, ended)
            };
            if due.is_empty() {
                return;
            }
            for Completion { at, level, call } in due {
                let reached = match level {
                    None => true,
                    Some(SyncLevel::Write) => self.written() >= at.end,
                    Some(_) => self.durable() >= at.end,
                };
                let result = if reached {
                    Ok(Committed {
                        start: at.start,
                        end: at.end,
                        guarantee: self.guarantee_at(at.end),
                    })
                } else {
                    Err(self.poison.check().err().unwrap_or(Error::Closed))
                };
                // A callback's panic is its owner's: the panic hook has shown it, and the log is
                // as whole as before.
                let _ = catch_unwind(AssertUnwindSafe(|| call(result)));
            }
            if !ended {
                // Those that these have submitted wait until what is to be written was.
                return;
            }
        }
    }
}

/// From the first record's start to the last one's end.
fn note(at: &mut Option<RecordRange>, start: Lsn, end: Lsn) {
    at.get_or_insert(RecordRange { start, end }).end = end;
}
