//! The cap on the log's size, and the checkpoint callback that frees space before it is reached.
//!
//! The preallocator decides, before it prepares a segment. The callback runs in its own thread, so
//! that it may wait for the preallocator.

use crate::engine::Engine;
use crate::error::Error;
use crate::read::boundary::boundary_at_or_after_segment;
use crate::storage::builder::Made;
use crate::sync::wake::Wake;
use crate::types::CheckpointDue;
use logforce_format::Lsn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Whether another segment may be prepared.
pub(crate) enum SpaceDecision {
    Ready,
    /// Not now: no append needs it yet, or the callback runs.
    Later,
    Full(Error),
}

/// Ends a call when dropped, also by a panic: appends wait for it.
struct CallGuard(Arc<Engine>);

impl Drop for CallGuard {
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
        let wanted = self.next_segment_len(0);
        // In this order: a file on its way out is counted twice at worst.
        let segments = self.view.segments().bytes();
        let retired = self.files.retired.bytes();
        let spares = self.files.spares();
        let reused = spares.iter().any(|s| self.config.sizes.fits(s.len, wanted));
        Some(Usage {
            used: segments + retired + spares.iter().map(|s| s.len).sum::<u64>(),
            need: if reused { 0 } else { wanted },
            limit,
        })
    }

    /// Whether the cap allows one more segment beside those that were `made` and do not count yet.
    pub(crate) fn has_room_beside(&self, made: &[Made]) -> bool {
        let made: u64 = made.iter().map(|m| m.segment.header.len).sum();
        self.usage().is_none_or(|usage| {
            let used = usage.used.saturating_add(made);
            Usage { used, ..usage }.fits()
        })
    }

    /// Decides for the preallocator whether the cap allows another segment after `end`. `demanded`:
    /// an append waits for it.
    pub(crate) fn decide_space(self: &Arc<Self>, end: Lsn, demanded: bool) -> SpaceDecision {
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
        // Breaks pins before it refuses an append.
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
        let is_new = {
            // Set before the callback starts. Not if space was freed since `usage` was read: the
            // callback's own append would fail although there is space for it.
            let mut state = self.state();
            let is_new = state.segments.at_cap.is_none();
            if state.segments.times_freed() == freed {
                state.segments.at_cap = Some(full.clone());
            }
            is_new
        };
        if self.call(&usage, true) {
            // Wakes the callback's own appends, awaited ones too, which must not wait for it. Only once: the other
            // waiters wake the preallocator in turn.
            if is_new {
                self.wake_blocked(Wake::CallbackRuns);
            }
            return SpaceDecision::Later;
        }
        self.state().segments.at_cap = None;
        SpaceDecision::Full(full)
    }

    /// Calls the callback before space runs out, once for each segment.
    pub(crate) fn call_early(self: &Arc<Self>, end: Lsn) {
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

    /// Starts the callback unless it runs. Returns whether it runs now.
    fn call(self: &Arc<Self>, usage: &Usage, demanded: bool) -> bool {
        if self.state().lifecycle.closing {
            return false;
        }
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
            // It has cleared `running`, its last step.
            let _ = thread.join();
        }
        // Once the call before has returned, which has moved the front.
        let due = self.checkpoint_due(usage);
        let engine = self.clone();
        let body = move || {
            let guard = CallGuard(engine);
            guard.0.adopt_callback_thread();
            // A panic in the callback does not affect the log.
            let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(guard.0.clone(), due)));
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
        let segments = self.view.segments().all();
        for segment in segments {
            short = short.saturating_sub(segment.header.len);
            if short == 0 {
                let end = segment.header.end().min(durable);
                // Where it cannot be read, the owner's truncation says so.
                truncate_to = boundary_at_or_after_segment(&self.view, end).unwrap_or(end);
                break;
            }
        }
        CheckpointDue {
            log_id: self.view.log_id,
            path: self.view.path.clone(),
            front: self.front(),
            // Now: `truncate_to` may be above what was durable at first.
            durable: self.durable(),
            used: usage.used,
            limit: usage.limit,
            truncate_to,
        }
    }

    /// Removes spares at the cap, where they count too, except for the one that is used next.
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

    /// Waits for the callback's end and drops it. The preallocator has ended.
    pub(crate) fn join_callback(&self) {
        let (callback, thread) = {
            let mut calls = self.owner.calls();
            (calls.callback.take(), calls.thread.take())
        };
        if let Some(thread) = thread
            // The callback closes the log itself: the log is closed for its next calls.
            && !self.is_in_callback()
        {
            let _ = thread.join();
        }
        // Without the mutex: the callback may own the last clone of another log, which closes.
        drop(callback);
    }
}
