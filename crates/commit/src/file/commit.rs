//! Group commit of a file: a committing thread leads the next sync, or waits for the one that covers its
//! writes.
//!
//! A commit is durable once the *horizon* has reached the number of writes that had completed when it began.
//! A sync moves the horizon to the number of writes that had completed when *it* began: a sync
//! may or may not cover a write that completes while it runs. One waiter is the next leader, and
//! is woken first when a sync ends, so that the device does not idle.

use crate::file::error::{Error, Result};
use crate::file::shared::{LONGEST_WRITE, Shared, State};
use crate::file::stats::nanos;
use crate::file::wake::{WaitFor, Wake};
use crate::sync::event::Event;
use crate::write_concurrency::Share;
use logforce_device::{Barrier, planted};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A force in flight. If its thread panics, the file is poisoned, because the effect is unknown.
struct Force<'a> {
    shared: &'a Shared,
    doing: &'static str,
    /// Number of a sync; `None` for a durable write.
    sync: Option<u32>,
    ended: bool,
}

impl Force<'_> {
    /// Ends the force, with the state locked.
    fn end(&mut self, state: &mut State) {
        self.ended = true;
        state.in_flight -= 1;
        if self.sync.is_some() {
            state.syncing_to = None;
            state.sync_number = state.sync_number.wrapping_add(1);
        }
    }
}

impl Drop for Force<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let path = self.shared.path.clone();
            let doing = self.doing;
            self.shared.fail(Error::Panicked { doing, path });
            self.end(&mut self.shared.state());
        }
    }
}

impl State {
    /// Returns true if a sync may begin now. No other force may be in flight: a failed write-back is reported
    /// once to each open file, to the first caller that asks. Of a sync and a durable write, one could get the
    /// error, and the other one would acknowledge what is lost. Once a commit waits, no durable write begins,
    /// so the turn of the sync comes.
    fn may_sync(&self) -> bool {
        self.in_flight == 0 && !self.concurrency.gathers(0)
    }
}

impl Shared {
    /// Returns the number of writes that a commit which begins now must cover.
    pub(super) fn target(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// Returns true if the first `target` writes are durable, or the file's method makes nothing durable.
    pub(super) fn is_reached(&self, target: u64) -> bool {
        self.forcing.barrier.is_none() || self.durable.load(Acquire) >= target
    }

    /// Waits as [`Shared::commit_to`] does, and counts the commit.
    pub(super) fn commit(&self) -> Result<()> {
        self.check()?;
        let target = self.target();
        if self.is_reached(target) {
            self.metrics.counted.commits.add(1);
            self.metrics.counted.idle_commits.add(1);
            return Ok(());
        }
        let began = self.runtime.now();
        self.commit_to(target, true)?;
        self.committed_since(began);
        Ok(())
    }

    fn committed_since(&self, began: Duration) {
        let took = self.runtime.now().saturating_sub(began);
        self.metrics.commit.record(nanos(took));
        self.metrics.counted.commits.add(1);
    }

    /// Returns once the first `target` writes are durable. The calling thread leads a sync itself if none in
    /// flight covers them. The commit `counts` as one of those that meet.
    pub(super) fn commit_to(&self, target: u64, mut counts: bool) -> Result<()> {
        let Some(barrier) = self.forcing.barrier else {
            return Ok(());
        };
        let mut now = self.runtime.now();
        let mut state = self.state();
        let mut my_turn = None;
        loop {
            if self.is_reached(target) {
                return Ok(());
            }
            let checked = planted!("file-recheck-poison", Ok(()), else self.check_poison());
            checked?;
            // The sync in flight may cover these writes already: then no later one serves this commit.
            let is_covered = state.syncing_to.is_some_and(|covers| covers >= target);
            if counts && !is_covered {
                state.concurrency.came(now);
                counts = false;
            }
            let gathers_for = state.concurrency.gathers_for(now);
            if state.may_sync() {
                let force = self.begin_sync(&mut state);
                let share = state.concurrency.begin(0);
                let covers = state.syncing_to.unwrap_or(0);
                drop(state);
                self.sync(barrier, force, share, covers)?;
            } else {
                let event = self.event_to_wait_for(&mut state, target, &mut my_turn);
                let seen = event.observe();
                // The next leader must wake by itself: no other thread may come that ends the gathering.
                let leads_next = std::ptr::eq(event, &self.events.next_leader);
                let timeout = gathers_for.filter(|_| leads_next);
                drop(state);
                event.wait(self.runtime(), seen, timeout, WaitFor::Commit);
            }
            if self.is_reached(target) {
                return Ok(());
            }
            now = self.runtime.now();
            state = self.state();
        }
    }

    /// Returns the event of the sync that covers `target`, or the next leader's event. `my_turn` is the
    /// number of the sync for which the caller is the next leader.
    fn event_to_wait_for(
        &self,
        state: &mut State,
        target: u64,
        my_turn: &mut Option<u32>,
    ) -> &Event {
        let current = state.sync_number;
        if state.syncing_to.is_some_and(|covers| covers >= target) {
            return self.events.syncs.of(current);
        }
        let next = match state.syncing_to {
            Some(_) => current.wrapping_add(1),
            None => current,
        };
        if !state.has_next_leader || *my_turn == Some(next) {
            state.has_next_leader = true;
            *my_turn = Some(next);
            return &self.events.next_leader;
        }
        self.events.syncs.of(next)
    }

    /// Begins a sync that covers all writes which have completed.
    fn begin_sync(&self, state: &mut State) -> Force<'_> {
        state.in_flight += 1;
        state.syncing_to = Some(self.target());
        state.has_next_leader = false;
        Force {
            shared: self,
            doing: "sync",
            sync: Some(state.sync_number),
            ended: false,
        }
    }

    /// Syncs the file as the leader, and moves the horizon to `covers`. A failure poisons the file: a second
    /// sync would report success for bytes that the system has dropped.
    fn sync(
        &self,
        barrier: Barrier,
        mut force: Force<'_>,
        share: Share,
        mut covers: u64,
    ) -> Result<()> {
        let began = self.runtime.now();
        let barrier = match self.needs_full_sync.swap(false, SeqCst) {
            true => Barrier::Full,
            false => barrier,
        };
        let synced = self.sync_file(barrier);
        let now = self.runtime.now();
        if planted!("file-sync-covers-later-writes") {
            covers = self.target();
        }
        let result = match synced {
            Err(e) if !planted!("file-failed-sync-forgotten") => {
                Err(self.fail(Error::io("sync", &self.path)(e)))
            }
            _ => Ok(()),
        };
        self.metrics.counted.syncs.add(1);
        let took = now.saturating_sub(began);
        self.metrics.sync.record(nanos(took));
        let number = force.sync.unwrap_or(0);
        let mut state = self.state();
        if result.is_ok() || planted!("file-failed-sync-releases") {
            self.durable.fetch_max(covers, Release);
        }
        state.concurrency.acknowledged(share, now, took);
        force.end(&mut state);
        drop(state);
        let (events, runtime) = (&self.events, self.runtime());
        events.next_leader.notify(runtime, Wake::NextLeader);
        events.syncs.of(number).notify(runtime, Wake::Synced);
        events.tasks.wake_to(covers, Wake::Tasks);
        result
    }

    /// Writes the slices durably, by one write-through if that is safe and no other commit waits, else by a
    /// write and a commit, which others share.
    pub(super) fn write_commit(&self, slices: &[&[u8]], offset: u64) -> Result<()> {
        self.check()?;
        let len = self.check_range(slices, offset)?;
        let began = self.runtime.now();
        match self.begin_through(len, began) {
            Some((force, share)) => self.write_through(slices, offset, force, share)?,
            None => {
                self.write(slices, offset)?;
                self.commit_to(self.target(), true)?;
            }
        }
        self.committed_since(began);
        Ok(())
    }

    /// Begins a write-through of `len` bytes at `now`, if it may begin at once.
    fn begin_through(&self, len: usize, now: Duration) -> Option<(Force<'_>, Share)> {
        if !self.forcing.is_through() || len == 0 || len > LONGEST_WRITE {
            return None;
        }
        let mut state = self.state();
        let in_flight = state.in_flight;
        // The file's thread waits without being counted among the commits.
        let waits = state.has_next_leader && !planted!("file-through-goes-first");
        if state.syncing_to.is_some()
            || waits
            || !state.concurrency.allows_alone(in_flight, len, now)
        {
            return None;
        }
        state.in_flight += 1;
        state.concurrency.came(now);
        let share = state.concurrency.begin(len);
        let force = Force {
            shared: self,
            doing: "write through to",
            sync: None,
            ended: false,
        };
        Some((force, share))
    }

    /// Writes the slices by a write-through. It makes nothing durable but these bytes, so the horizon stays.
    fn write_through(
        &self,
        slices: &[&[u8]],
        offset: u64,
        mut force: Force<'_>,
        share: Share,
    ) -> Result<()> {
        let began = self.runtime.now();
        let result = self.write_pieces(slices, offset, true);
        let now = self.runtime.now();
        let took = now.saturating_sub(began);
        self.metrics.counted.through_writes.add(1);
        self.metrics.through_write.record(nanos(took));
        let mut state = self.state();
        if planted!("file-through-is-a-barrier") {
            self.durable.fetch_max(self.target(), Release);
        }
        state.concurrency.acknowledged(share, now, took);
        force.end(&mut state);
        drop(state);
        self.events
            .next_leader
            .notify(self.runtime(), Wake::NextLeader);
        result
    }
}
