//! Commits that return before the record is durable: with a handle, or with a callback. The writer
//! thread writes and forces them.

use crate::batch::Append;
use crate::engine::Engine;
use crate::engine::append::{empty_at, extend, set_deadline};
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::handles::{CommitHandle, ForceHandle};
use crate::policy::{Policy, WaitLevel};
use crate::state::State;
use crate::state::completions::{Call, Completion};
use crate::sync::wake::Wake;
use crate::types::{Acknowledged, RecordRange, RecordSlices};
use logforce_device::sync::MutexGuard;
use logforce_format::Lsn;
use std::sync::Arc;
use std::time::Duration;

impl Log {
    /// Appends a record or a [`Batch`](crate::Batch), and returns a handle to wait on, poll or await
    /// until it is durable. The log writes it without being waited for.
    ///
    /// **This may block**, as [`Log::append`] does, while the log buffer is full or a segment is
    /// prepared. In a task use [`Log::commit_async`], or [`Log::reserve`] where the order matters.
    pub fn submit(&self, records: impl Append) -> Result<CommitHandle> {
        self.submit_with(records, Policy::Force)
    }

    /// As [`Log::submit`], for what `policy` says; the handle returns
    /// [what the record survives](Acknowledged::guarantee).
    pub fn submit_with(&self, mut records: impl Append, policy: Policy) -> Result<CommitHandle> {
        let engine = self.engine_arc().clone();
        records.append_by(|records, placed| engine.submit_records(records, policy, placed))
    }

    /// As [`Log::submit`], but does not wait: without buffer or prepared space it returns
    /// [`Error::WouldBlock`], and has not accepted the record.
    pub fn try_submit(&self, mut records: impl Append) -> Result<CommitHandle> {
        let engine = self.engine_arc().clone();
        // Round 0: the last failure to prepare a segment counts, whenever it was, since this call
        // does not wait for another attempt.
        let submitted =
            records.append_by(|records, placed| engine.try_submit(records, &mut Some(0), placed));
        if let Err(Error::NoSpace { .. } | Error::Full { .. }) = &submitted {
            self.engine().try_preparing_again();
        }
        submitted
    }

    /// As [`Log::submit_with`], but calls `done` with the result instead of returning a handle. The
    /// writer thread calls it, in the order of the records, so a slow callback delays writes. A
    /// panic in it ends the callback and nothing else. It may append and commit, and drop or close
    /// the log; it must not wait for another thread that waits for this log.
    pub fn submit_then(
        &self,
        mut records: impl Append,
        policy: Policy,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<RecordRange> {
        let done: Call = Box::new(done);
        let engine = self.engine();
        records.append_by(|records, placed| engine.submit_then(records, policy, done, placed))
    }

    /// Requests that everything below `end` be made durable, without waiting.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if `end` lies beyond what was appended.
    pub fn submit_force(&self, end: Lsn) -> Result<ForceHandle> {
        self.engine_arc().clone().submit_force(end)
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

    /// As [`Log::append`], for a record in several slices, and calls `decided` as
    /// [`Log::submit_ordered`] does.
    #[doc(hidden)]
    pub fn append_ordered(
        &self,
        parts: &[&[u8]],
        mut decided: impl FnMut(RecordRange),
    ) -> Result<()> {
        let decided = |start, end| decided(RecordRange { start, end });
        self.engine().append(&[parts], decided).map(drop)
    }
}

impl Engine {
    /// Stages the records, for the writer thread to write.
    pub(crate) fn submit_records(
        self: Arc<Self>,
        records: RecordSlices<'_>,
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
        Ok(CommitHandle::new(self, at, policy.level()))
    }

    /// As [`Engine::submit_records`], without waiting for space.
    pub(crate) fn try_submit(
        self: Arc<Self>,
        records: RecordSlices<'_>,
        asked: &mut Option<u64>,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<CommitHandle> {
        let (now, policy) = (self.runtime().now(), Policy::Force);
        let mut at = None;
        let (state, wakeups) = self.try_place(records, asked, |start, end| {
            extend(&mut at, start, end);
            each(start, end);
        })?;
        let at = self.request_policy(state, wakeups, at, policy, now, None);
        Ok(CommitHandle::new(self, at, policy.level()))
    }

    /// As [`Engine::submit_records`], in space that was promised.
    pub(crate) fn submit_reserved(
        self: Arc<Self>,
        records: RecordSlices<'_>,
        promised: usize,
        policy: Policy,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<CommitHandle> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.stage_reserved(records, promised, |start, end| {
            extend(&mut at, start, end);
            each(start, end);
        })?;
        let at = self.request_policy(state, wakeups, at, policy, now, None);
        Ok(CommitHandle::new(self, at, policy.level()))
    }

    /// Stages the records, and registers `call` for when they have reached what the policy
    /// requires.
    pub(crate) fn submit_then(
        &self,
        records: RecordSlices<'_>,
        policy: Policy,
        call: Call,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<RecordRange> {
        let now = self.runtime().now();
        let mut at = None;
        let (state, wakeups) = self.stage(records, |start, end| {
            extend(&mut at, start, end);
            each(start, end);
        })?;
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
        Ok(ForceHandle::new(self, end))
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
        let at = at.unwrap_or_else(|| empty_at(state.tail()));
        wakeups.writer |= set_deadline(&mut state, at.end, policy, now);
        self.metrics.counted.submits.add_locked(1);
        if policy == Policy::Force {
            state.deadlines.oldest_submission.get_or_insert(now);
            state.pipeline.commit_came(at.end, now);
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
