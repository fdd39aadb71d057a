//! Appending: reserve space, copy the record into the log buffer; and the commit on top of it.

use crate::engine::Engine;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::policy::{Policy, WaitLevel};
use crate::state::{State, frames_len};
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::{WaitFor, Wake};
use crate::types::{Acknowledged, RecordRange, RecordSlices};
use logforce_device::Granted;
use logforce_device::sync::MutexGuard;
use logforce_format::{Lsn, planted};
use std::time::Duration;

/// Source of the space for an append.
pub(crate) enum Space<'a> {
    /// Waits until there is some.
    Wait,
    /// Takes the space if it is free now, else fails with [`Error::WouldBlock`]. Keeps across retries the
    /// round of preparing in which this append first requested prepared space.
    Now(&'a mut Option<u64>),
    /// Takes this number of bytes, which a permit has reserved.
    Promised(usize),
}

/// An append that is in the log buffer, with the state locked.
pub(crate) struct Staged<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    /// The threads to wake once the state is unlocked.
    pub(crate) wakeups: Wakeups,
    /// Range from the first record's start to the last one's end; empty, at the end of the log, for an
    /// append without records.
    pub(crate) at: RecordRange,
}

impl Engine {
    /// Stages an atomic append in space from the given source. Calls `each` with the start and the end of
    /// each record.
    pub(crate) fn stage(
        &self,
        records: RecordSlices<'_>,
        space: Space<'_>,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<Staged<'_>> {
        let mut at: Option<RecordRange> = None;
        let mut placed = |start, end| {
            at.get_or_insert(RecordRange { start, end }).end = end;
            each(start, end);
        };
        let (state, wakeups) = match space {
            Space::Wait => self.place_waiting(records, &mut placed)?,
            Space::Now(first_round) => self.try_place(records, first_round, &mut placed)?,
            Space::Promised(bytes) => self.place_promised(records, bytes, &mut placed)?,
        };
        let tail = state.tail();
        let at = at.unwrap_or(RecordRange {
            start: tail,
            end: tail,
        });
        Ok(Staged { state, wakeups, at })
    }

    /// Places an append once there is buffer and prepared space for it.
    fn place_waiting(
        &self,
        records: RecordSlices<'_>,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, State>, Wakeups)> {
        refuse_in_waker()?;
        let mut first_round = None;
        let mut waited = false;
        loop {
            let seen = self.events.progress.observe();
            match self.try_place(records, &mut first_round, &mut each) {
                Err(Error::WouldBlock) => {
                    if !std::mem::replace(&mut waited, true) {
                        self.metrics.waits(first_round.is_some());
                    }
                    if !self.write_in_own_thread() {
                        self.wait_for_progress(seen, WaitFor::Space);
                    }
                }
                other => return other,
            }
        }
    }

    /// Places an append like [`Engine::place_waiting`], but fails with [`Error::WouldBlock`] instead of
    /// waiting.
    fn try_place(
        &self,
        records: RecordSlices<'_>,
        first_round: &mut Option<u64>,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, State>, Wakeups)> {
        self.check()?;
        let bytes = self.slices_len(records)?;
        let state = self.lock_with_space(bytes, first_round)?;
        Ok(self.place(state, records, each))
    }

    /// Locks the state once there is prepared space and buffer space for an append of `bytes`, or returns
    /// [`Error::WouldBlock`].
    fn lock_with_space(
        &self,
        bytes: usize,
        first_round: &mut Option<u64>,
    ) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        self.check_open(&state)?;
        let mut wakeups = Wakeups::default();
        if self.lacks_prepared(&mut state, bytes, first_round)? {
            wakeups.preallocator = Wake::PreallocatorForSpace.if_needed(true);
        } else if !state.has_buffer_space(bytes) {
            wakeups.writer = Wake::WriterForSpace.if_needed(true);
        } else {
            return Ok(state);
        }
        drop(state);
        self.wake(wakeups);
        Err(Error::WouldBlock)
    }

    /// Promises space to one append of up to `bytes` of frames, or returns [`Error::WouldBlock`].
    pub(crate) fn try_reserve(&self, bytes: usize, first_round: &mut Option<u64>) -> Result<()> {
        self.check()?;
        let mut state = self.lock_with_space(bytes, first_round)?;
        state.reservations.add(bytes);
        Ok(())
    }

    /// Takes back the promise of `bytes`, and wakes the appends that it kept waiting.
    pub(crate) fn release_reserved(&self, bytes: usize) {
        let space = self.state().reservations.release(bytes);
        self.wake(Wakeups {
            space,
            ..Wakeups::default()
        });
    }

    /// Places an append to which `promised` bytes were promised.
    fn place_promised(
        &self,
        records: RecordSlices<'_>,
        promised: usize,
        mut each: impl FnMut(Lsn, Lsn),
    ) -> Result<(MutexGuard<'_, State>, Wakeups)> {
        let bytes = match self.check().and_then(|()| self.slices_len(records)) {
            Ok(bytes) if bytes <= promised => bytes,
            other => {
                self.release_reserved(promised);
                let (len, max) = (other? as u64, promised as u64);
                return Err(Error::TooLarge { len, max });
            }
        };
        let mut state = self.state();
        let kept_one_waiting = state.reservations.release(promised);
        // Does not check the space again. The promise reserved two batches and a stamp for each append. A
        // second check would not know the share that forces and stamps have used since, and would report it
        // as missing.
        let placed = self.check_open(&state).and_then(|()| {
            if planted!("promise-checked-again")
                && self.lacks_prepared(&mut state, bytes, &mut None)?
            {
                return Err(Error::WouldBlock);
            }
            Ok(())
        });
        if let Err(e) = placed {
            drop(state);
            self.wake(Wakeups {
                space: kept_one_waiting,
                ..Wakeups::default()
            });
            return Err(e);
        }
        let (state, mut wakeups) = self.place(state, records, &mut each);
        wakeups.space = kept_one_waiting;
        Ok((state, wakeups))
    }

    /// Copies the records into the log buffer, in which there is space.
    fn place<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        records: RecordSlices<'_>,
        each: impl FnMut(Lsn, Lsn),
    ) -> (MutexGuard<'a, State>, Wakeups) {
        let segments = state.segments.upcoming();
        let batches = state.buffer.full_batches();
        state.stage(records, each);
        self.metrics.accepted(records);
        let filled = state.buffer.full_batches() > batches;
        let wakeups = Wakeups {
            writer: Wake::WriterForSpace.if_needed(filled),
            preallocator: segments > state.segments.upcoming() || state.wants_preallocator(),
            ..Wakeups::default()
        };
        (state, wakeups)
    }

    /// Fails if the log has failed or is closing.
    fn check_open(&self, state: &State) -> Result<()> {
        self.poison.check()?;
        match state.lifecycle.closing {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Returns true if an append of `bytes` must wait for prepared space, which this then requests.
    fn lacks_prepared(
        &self,
        state: &mut State,
        bytes: usize,
        first_round: &mut Option<u64>,
    ) -> Result<bool> {
        let end = state.worst_case_end(bytes, self.config.sizes.first);
        if end <= state.segments.writable_end() {
            return Ok(false);
        }
        // Requests space before the record is accepted, so that an accepted record cannot fail with
        // NoSpace.
        state.segments.request(end, first_round)?;
        Ok(true)
    }

    /// Returns the bytes of the frames of an atomic append.
    pub(crate) fn slices_len(&self, records: RecordSlices<'_>) -> Result<usize> {
        let lens = records.iter().map(|r| r.iter().map(|p| p.len()).sum());
        frames_len(lens, self.config.options.longest_append())
    }

    /// Appends the records and returns their range. Without records, returns the end of the log.
    pub(crate) fn append(
        &self,
        records: RecordSlices<'_>,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<RecordRange> {
        let Staged { state, wakeups, at } = self.stage(records, Space::Wait, each)?;
        drop(state);
        self.wake(wakeups);
        Ok(at)
    }

    /// Appends, and waits as the policy says. Locks the state once for both.
    pub(crate) fn commit(
        &self,
        records: RecordSlices<'_>,
        policy: Policy,
        each: impl FnMut(Lsn, Lsn),
    ) -> Result<Acknowledged> {
        let now = self.runtime().now();
        self.check_replica(policy)?;
        let Staged {
            mut state,
            mut wakeups,
            at,
        } = self.stage(records, Space::Wait, each)?;
        self.metrics.committing(policy);
        wakeups.writer |= set_deadline(&mut state, at.end, policy, now);
        match policy.level() {
            Some(level) => {
                if level == WaitLevel::Force {
                    state.pipeline.commit_came(at.end, now);
                }
                self.wait_until_locked(state, wakeups, at.end, level, now)?;
                if policy.is_replicated() {
                    self.wait_replicated(at.end)?;
                }
                let took = self.runtime().now().saturating_sub(now);
                self.metrics.committed(policy, took);
            }
            None => {
                drop(state);
                self.wake(wakeups);
            }
        }
        Ok(at.acknowledged(self.guarantee_of(policy, at.end)))
    }

    pub(crate) fn force(&self, end: Lsn) -> Result<Granted> {
        if self.durable() < end {
            refuse_in_waker()?;
            self.check()?;
            let now = self.runtime().now();
            let mut state = self.state();
            if end <= state.tail() {
                state.pipeline.commit_came(end, now);
            }
            self.wait_until_locked(state, Wakeups::default(), end, WaitLevel::Force, now)?;
            let took = self.runtime().now().saturating_sub(now);
            self.metrics.waited(took);
        }
        Ok(self.config.force.granted())
    }
}

/// Sets the deadline of an interval policy for the records below `end`. Returns whether the writer
/// thread must be woken for it.
pub(crate) fn set_deadline(state: &mut State, end: Lsn, policy: Policy, now: Duration) -> bool {
    policy
        .force_within()
        .is_some_and(|within| state.deadlines.set(now, within, end))
}
