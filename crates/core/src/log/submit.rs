//! Submissions: commits whose caller does not wait at once.

use crate::batch::Append;
use crate::engine::Engine;
use crate::engine::append::{Space, Staged, set_deadline};
use crate::error::Result;
use crate::log::Log;
use crate::log::handles::CommitHandle;
use crate::policy::{Policy, WaitLevel};
use crate::state::completions::{Call, Completion};
use crate::sync::wake::Wake;
use crate::types::{Acknowledged, RecordRange, RecordSlices};
use logforce_format::Lsn;
use std::sync::Arc;
use std::time::Duration;

impl Log {
    /// Appends a record or a [`Batch`](crate::Batch). Returns a handle to wait on, poll or await, which
    /// completes when `policy` is met and returns the record's [guarantee](Acknowledged::guarantee). The log
    /// writes the record even if no caller waits. A batch without records stands for all records that were
    /// appended before.
    ///
    /// **This may block**, as [`Log::append`] does, while the log buffer is full or a segment is
    /// prepared. In a task use [`Log::commit_async`], or [`Log::reserve`] if the order matters; if nothing
    /// may wait, [`Log::try_reserve`].
    pub fn submit(&self, mut records: impl Append, policy: Policy) -> Result<CommitHandle> {
        let engine = self.engine_arc();
        records.append_by(|records, placed| {
            engine.submit_records(records, Space::Wait, policy, placed)
        })
    }

    /// Submits like [`Log::submit`], but calls `done` with the result instead of returning a handle. The
    /// writer thread calls it, in the order of the records, so a slow callback delays writes. A panic in the
    /// callback ends only the callback. A callback may append and commit, and drop or close the log. It must
    /// not wait for another thread that waits for this log.
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

    /// Submits a record that consists of several slices, like [`Log::submit`]. Calls `decided` with the
    /// record's range while no other append can come in between, so that the caller can change its own state
    /// in the order of the log. `decided` must be short, and must not call the log.
    #[doc(hidden)]
    pub fn submit_ordered(
        &self,
        parts: &[&[u8]],
        policy: Policy,
        mut decided: impl FnMut(RecordRange),
    ) -> Result<CommitHandle> {
        let decided = |start, end| decided(RecordRange { start, end });
        self.engine_arc()
            .submit_records(&[parts], Space::Wait, policy, decided)
    }

    /// Appends a record that consists of several slices, like [`Log::append`], and calls `decided` like
    /// [`Log::submit_ordered`].
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
        self: &Arc<Self>,
        records: RecordSlices<'_>,
        space: Space<'_>,
        policy: Policy,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<CommitHandle> {
        self.check_replica(policy)?;
        let now = self.runtime().now();
        let staged = self.stage(records, space, each)?;
        let at = self.request_policy(staged, policy, now, None);
        Ok(CommitHandle::new(self.clone(), at, policy))
    }

    /// Stages the records, and registers `call` to be called when the policy is met.
    pub(crate) fn submit_then(
        &self,
        records: RecordSlices<'_>,
        policy: Policy,
        call: Call,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<RecordRange> {
        self.check_replica(policy)?;
        let now = self.runtime().now();
        let staged = self.stage(records, Space::Wait, each)?;
        Ok(self.request_policy(staged, policy, now, Some(call)))
    }

    /// Requests the write or force that the policy requires for the staged records, and releases the mutex.
    fn request_policy(
        &self,
        staged: Staged<'_>,
        policy: Policy,
        now: Duration,
        call: Option<Call>,
    ) -> RecordRange {
        let Staged {
            mut state,
            mut wakeups,
            at,
        } = staged;
        wakeups.writer |= set_deadline(&mut state, at.end, policy, now);
        self.metrics.counted.submits.add_locked(1);
        let mut caught_up = None;
        if policy.level() == Some(WaitLevel::Force) {
            // For an append without records, a quiet stamp may have made all previous records durable
            // already.
            caught_up = state.pipeline.catch_up(at.end);
            state.deadlines.oldest_submission.get_or_insert(now);
            state.pipeline.commit_came(at.end, now);
        }
        if let Some(level) = policy.level() {
            state.pipeline.request(level, at.end);
            wakeups.writer |= Wake::WriterForSubmission.if_needed(state.lacks_leader());
        }
        if let Some(call) = call {
            // With no level to wait for, the writer calls it at once.
            let is_due = policy.level().is_none();
            wakeups.writer |= Wake::WriterForNewCallback.if_needed(is_due);
            state.completions.push(Completion { at, policy, call });
        }
        match caught_up {
            Some(outcome) => self.publish(state, outcome),
            None => drop(state),
        }
        self.wake(wakeups);
        at
    }
}
