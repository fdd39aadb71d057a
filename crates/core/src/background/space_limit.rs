//! The cap on the log's size, and the callback that keeps it from being reached.
//!
//! The preallocator decides all of it, before it makes a segment. The callback runs in a thread of
//! its own, so that it may wait for what the preallocator does.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::KEPT_UNITS;
use crate::state::State;
use crate::sync::wake::Wake;
use crate::types::CheckpointDue;
use logforce_device::sync::thread_local;
use logforce_format::Lsn;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Whether another segment may be prepared.
pub(crate) enum SpaceDecision {
    Ready,
    /// Not now: nobody needs it yet, or the callback is at work.
    Later,
    Full(Error),
}

thread_local! {
    /// Of which log this thread runs the callback.
    static INSIDE: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
}

/// Marks the end of a call, also by a panic: appends wait for it.
struct Ending(Arc<Engine>);

impl Drop for Ending {
    fn drop(&mut self) {
        let engine = &self.0;
        engine.owner.calls().running = false;
        engine.state().segments.at_cap = None;
        let preallocator = &engine.events.preallocator;
        preallocator.notify(engine.runtime(), Wake::CallbackReturned);
    }
}

/// How much of the cap is used.
struct Usage {
    used: u64,
    /// What another segment would add.
    need: u64,
    limit: u64,
}

impl Usage {
    fn fits(&self) -> bool {
        self.used.saturating_add(self.need) <= self.limit
    }
}

impl Engine {
    fn usage(&self) -> Option<Usage> {
        let limit = self.config.options.max_log_size?;
        // In this order: a file on its way out is counted twice at worst.
        let segments = self.view.segments().bytes();
        let retiring = self.files.retired.bytes();
        let spares = self.files.spares();
        let reused = spares
            .iter()
            .any(|s| s.len == self.config.options.segment_size);
        Some(Usage {
            used: segments + retiring + spares.iter().map(|s| s.len).sum::<u64>(),
            need: if reused {
                0
            } else {
                self.config.options.segment_size
            },
            limit,
        })
    }

    /// Whether the cap lets another segment be prepared after `end`. `demanded`: an append waits
    /// for it. For the preparing thread.
    pub(crate) fn room(self: &Arc<Self>, end: Lsn, demanded: bool) -> SpaceDecision {
        let freed = self.state().segments.times_freed();
        self.remove_surplus_spares();
        let Some(usage) = self.usage().filter(|u| !u.fits()) else {
            self.owner.calls().called = false;
            return SpaceDecision::Ready;
        };
        if !demanded {
            self.notify_owner(end, true, &usage);
            return SpaceDecision::Later;
        }
        // Readers give way before an append is refused, as they do at the pins' own limit.
        while self.pins.break_oldest_pin() {
            if self.move_front().is_err() {
                break;
            }
            if self.usage().is_none_or(|u| u.fits()) {
                return SpaceDecision::Ready;
            }
        }
        let full = Error::Full {
            path: self.view.path.clone(),
            used: usage.used,
            need: usage.need,
            limit: usage.limit,
        };
        {
            let mut calls = self.owner.calls();
            if !calls.running && std::mem::take(&mut calls.called) {
                return SpaceDecision::Full(full);
            }
        }
        let news = {
            // Before the callback can ask. Not where space was freed since it was counted: the
            // callback's own thread would be refused what it has just made room for.
            let mut state = self.state();
            let news = state.segments.at_cap.is_none();
            if state.segments.times_freed() == freed {
                state.segments.at_cap = Some(full.clone());
            }
            news
        };
        if self.call(&usage, true) {
            // The callback's own appends need not wait for it. Told once: those who wait ring back.
            if news {
                let progress = &self.events.progress;
                progress.notify(self.runtime(), Wake::CallbackRuns);
            }
            return SpaceDecision::Later;
        }
        self.state().segments.at_cap = None;
        SpaceDecision::Full(full)
    }

    /// Calls the callback while there is space left, once for each segment.
    pub(crate) fn call_in_time(self: &Arc<Self>, end: Lsn) {
        if let Some(usage) = self.usage()
            && !usage.fits()
        {
            self.notify_owner(end, false, &usage);
        }
    }

    fn notify_owner(self: &Arc<Self>, end: Lsn, in_use: bool, usage: &Usage) {
        let notified = self.owner.calls().notified.replace((end, in_use));
        if notified != Some((end, in_use)) {
            self.call(usage, false);
        }
    }

    /// Starts the callback unless it runs. Says whether it runs now.
    fn call(self: &Arc<Self>, usage: &Usage, demanded: bool) -> bool {
        if self.state().lifecycle.closing {
            return false;
        }
        let due = self.checkpoint_due(usage);
        let (callback, before) = {
            let mut calls = self.owner.calls();
            if calls.running {
                return true;
            }
            let Some(callback) = calls.callback.clone() else {
                return false;
            };
            calls.running = true;
            calls.called = demanded;
            (callback, calls.thread.take())
        };
        if let Some(thread) = before {
            // It has said that it is at its end.
            let _ = thread.join();
        }
        let engine = self.clone();
        let body = move || {
            let ending = Ending(engine);
            INSIDE.with(|inside| inside.set(Arc::as_ptr(&ending.0)));
            // What it left behind is its owner's; the log is whole at every call.
            let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(due)));
        };
        match self.runtime().spawn("logforce-checkpoint", Box::new(body)) {
            Ok(thread) => {
                self.owner.calls().thread = Some(thread);
                true
            }
            Err(_) => {
                let mut calls = self.owner.calls();
                calls.running = false;
                calls.called = false;
                false
            }
        }
    }

    fn checkpoint_due(&self, usage: &Usage) -> CheckpointDue {
        let mut short = (usage.used + usage.need).saturating_sub(usage.limit);
        let durable = self.durable();
        let mut truncate_to = durable;
        for segment in self.view.segments().all() {
            short = short.saturating_sub(segment.header.len);
            if short == 0 {
                truncate_to = segment.header.end().min(durable);
                break;
            }
        }
        CheckpointDue {
            log_id: self.view.log_id,
            path: self.view.path.clone(),
            front: self.front(),
            durable,
            used: usage.used,
            limit: usage.limit,
            truncate_to,
        }
    }

    /// Spares count too: all but the one that is used next go before the cap is reached.
    fn remove_surplus_spares(&self) {
        while let Some(usage) = self.usage().filter(|u| !u.fits()) {
            let spare = {
                let mut spares = self.files.spares();
                if spares.len() <= usize::from(usage.need == 0) {
                    return;
                }
                spares.pop()
            };
            let removed = spare.map(|s| self.view.dir.remove(&s.name));
            if removed.is_some_and(|r| r.is_err()) {
                return;
            }
        }
    }

    fn is_in_callback(&self) -> bool {
        INSIDE.with(|inside| std::ptr::eq(inside.get(), self))
    }

    /// Whether an append that would end at `bound` may take of what is kept for closing and
    /// truncating: half of it is the callback's, or it could not note its checkpoint in a log that
    /// others have filled up meanwhile.
    pub(crate) fn may_use_reserve(&self, state: &State, bound: Lsn) -> bool {
        let reserve = KEPT_UNITS / 2 * u64::from(self.config.unit);
        self.is_in_callback() && bound.0.saturating_sub(reserve) <= state.segments.prepared_end().0
    }

    /// Refuses the callback's own thread what it would otherwise wait for itself to make room for.
    pub(crate) fn refuse_in_callback(&self, state: &State) -> Result<()> {
        match &state.segments.at_cap {
            Some(full) if self.is_in_callback() => Err(full.clone()),
            _ => Ok(()),
        }
    }

    /// Whether a close must not wait for one that waits for this thread.
    pub(crate) fn closes_around_itself(&self) -> bool {
        self.is_in_callback()
    }

    /// Waits for the callback's end and lets go of it. The preparing thread has ended.
    pub(crate) fn join_checkpoint(&self) {
        let (callback, thread) = {
            let mut calls = self.owner.calls();
            (calls.callback.take(), calls.thread.take())
        };
        if let Some(thread) = thread
            // Closed by the callback itself: from now on the log refuses whatever it asks.
            && !self.is_in_callback()
        {
            let _ = thread.join();
        }
        // Not under the mutex: it may hold the last clone of another log.
        drop(callback);
    }
}
