//! Appending: reserve space, copy the record into the log buffer; and the commit on top of it.

use crate::engine::Engine;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::policy::{Policy, WaitLevel};
use crate::state::{State, frames_len};
use crate::sync::wake::{WaitFor, Wake};
use logforce_device::Guarantee;
use logforce_device::sync::MutexGuard;
use logforce_format::Lsn;
use std::time::Duration;

impl Engine {
    /// Stages an atomic append once there is buffer and prepared space for it. Returns the locked
    /// state, and the threads to wake once it is unlocked.
    pub(crate) fn stage(
        &self,
        records: &[&[&[u8]]],
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, State>, Wakeups)> {
        let mut asked = None;
        let mut waited = false;
        loop {
            let seen = self.events.progress.observe();
            match self.try_place(records, &mut asked, &mut each) {
                Err(Error::WouldBlock) => {
                    if !std::mem::replace(&mut waited, true) {
                        self.metrics.waits(asked.is_some());
                    }
                    if !self.write_in_own_thread() {
                        self.wait_for_progress(seen, WaitFor::Space);
                    }
                }
                other => return other,
            }
        }
    }

    /// As [`Engine::place`], or [`Error::WouldBlock`]. `since` keeps across retries since when this
    /// append has requested prepared space.
    pub(crate) fn try_place(
        &self,
        records: &[&[&[u8]]],
        since: &mut Option<u64>,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, State>, Wakeups)> {
        self.check()?;
        let bytes = frames_len(records.iter().map(|r| r.iter().map(|p| p.len()).sum()))?;
        let mut state = self.state();
        if let Some(wakeups) = self.reserve(&mut state, bytes, since)? {
            drop(state);
            self.wake(wakeups);
            return Err(Error::WouldBlock);
        }
        let segments = state.segments.upcoming();
        let batches = state.buffer.full_batches();
        state.stage(records, each);
        self.metrics.accepted(records);
        let filled = state.buffer.full_batches() > batches;
        let wakeups = Wakeups {
            writer: Wake::WriterForSpace.if_needed(filled),
            preallocator: segments > state.segments.upcoming(),
        };
        Ok((state, wakeups))
    }

    /// Reserves space for an append of `bytes`; `Some` if it must wait, with the threads to wake
    /// first.
    fn reserve(
        &self,
        state: &mut State,
        bytes: usize,
        since: &mut Option<u64>,
    ) -> Result<Option<Wakeups>> {
        self.poison.check()?;
        if state.lifecycle.closing {
            return Err(Error::Closed);
        }
        let end = state.worst_case_end(bytes, self.config.options.segment_size);
        if end > state.segments.prepared_end() && !self.may_use_reserve(state, end) {
            // Space before acceptance: an accepted record cannot fail with NoSpace.
            self.refuse_in_callback(state)?;
            state.segments.request(end, since)?;
            return Ok(Some(Wakeups {
                preallocator: Wake::PreallocatorForSpace.if_needed(true),
                writer: false,
            }));
        }
        Ok((!state.buffer.has_space(bytes)).then_some(Wakeups {
            writer: Wake::WriterForSpace.if_needed(true),
            preallocator: false,
        }))
    }

    pub(crate) fn append(&self, records: &[&[&[u8]]], each: impl FnMut(Lsn, Lsn)) -> Result<()> {
        let (state, wakeups) = self.stage(records, each)?;
        drop(state);
        self.wake(wakeups);
        Ok(())
    }

    /// Appends, and waits as the policy says. Locks the state once for both.
    pub(crate) fn commit(
        &self,
        records: &[&[&[u8]]],
        policy: Policy,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<Guarantee> {
        let now = self.runtime().now();
        let mut last = Lsn::ORIGIN;
        let (mut state, mut wakeups) = self.stage(records, |start, end| {
            last = end;
            each(start, end);
        })?;
        self.metrics.committing(policy);
        wakeups.writer |= set_deadline(&mut state, last, policy, now);
        match policy.level() {
            Some(level) => {
                self.wait_until_locked(state, wakeups, last, level)?;
                let took = self.runtime().now().saturating_sub(now);
                self.metrics.committed(policy, took);
            }
            None => {
                drop(state);
                self.wake(wakeups);
            }
        }
        Ok(self.guarantee_at(last))
    }

    pub(crate) fn force(&self, end: Lsn) -> Result<Guarantee> {
        if self.durable() < end {
            self.check()?;
            self.wait_until_timed(end, WaitLevel::Force)?;
        }
        Ok(self.config.force.guarantee)
    }
}

/// Sets the deadline of an interval policy for the records below `end`. Returns whether the writer
/// thread must be woken for it.
pub(crate) fn set_deadline(state: &mut State, end: Lsn, policy: Policy, now: Duration) -> bool {
    policy
        .force_within()
        .is_some_and(|within| state.deadlines.set(now, within, end))
}
