//! The cap on the log's size, and the callback that keeps it from being reached.
//!
//! All of it is decided by the preparing thread, before it makes a segment. The callback runs in a
//! thread of its own, so that it may wait for what the preparing thread does.

use crate::log::Shared;
use crate::stage::{KEPT_UNITS, Stage};
use crate::{Error, Result};
use logforce_device::JoinHandle;
use logforce_device::sync::{Mutex, MutexGuard, thread_local};
use logforce_format::{LogId, Lsn, planted};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

/// What the owner of a log needs to know to make room in it; see
/// [`Options::on_checkpoint_due`](crate::Options::on_checkpoint_due).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointDue {
    /// The log.
    pub log_id: LogId,
    /// Its directory.
    pub path: PathBuf,
    /// Where the log begins.
    pub front: Lsn,
    /// What is durable ends here.
    pub durable: Lsn,
    /// Bytes of all segment files.
    pub used: u64,
    /// The cap, bytes.
    pub limit: u64,
    /// Truncated to a record's start or end here or above, the log has room for another segment; if
    /// this is `durable`, as far as it can be truncated. Not itself such a boundary.
    pub truncate_to: Lsn,
}

/// What to call.
#[derive(Clone)]
pub(crate) struct Callback(pub(crate) Arc<dyn Fn(CheckpointDue) + Send + Sync>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

/// Whether another segment may be prepared.
pub(crate) enum Room {
    Ready,
    /// Not now: nobody needs it yet, or the callback is at work.
    Later,
    Full(Error),
}

#[derive(Default)]
struct State {
    callback: Option<Callback>,
    running: bool,
    thread: Option<Box<dyn JoinHandle>>,
    /// For which prepared end, and whether all of it was in use, the callback was called in time.
    told: Option<(Lsn, bool)>,
    /// The callback was called for the appends that are waiting.
    called: bool,
}

/// The callback, and what is running of it.
pub(crate) struct Checkpoint {
    shared: OnceLock<Weak<Shared>>,
    state: Mutex<State>,
}

thread_local! {
    /// Of which log this thread runs the callback.
    static INSIDE: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

/// Marks the end of a call, also by a panic: appends wait for it.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.checkpoint.state().running = false;
        self.0.stage().at_cap = None;
        if !planted!("wake-prepare-after-callback") {
            self.0.prepare.ring(&*self.0.runtime);
        }
    }
}

impl Checkpoint {
    pub(crate) fn new(callback: Option<Callback>) -> Checkpoint {
        Checkpoint {
            shared: OnceLock::new(),
            state: Mutex::new(State {
                callback,
                ..State::default()
            }),
        }
    }

    /// Lets the callback's thread keep what it works on.
    pub(crate) fn attach(&self, shared: &Arc<Shared>) {
        // Once, by the opening.
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Shared {
    fn usage(&self) -> Option<Usage> {
        let limit = self.options.max_log_size?;
        // In this order: a file on its way out is counted twice at worst.
        let segments = self.segments().bytes();
        let retiring = self.retiring.bytes();
        let spares = self.spares();
        let reused = spares.iter().any(|s| s.len == self.options.segment_size);
        Some(Usage {
            used: segments + retiring + spares.iter().map(|s| s.len).sum::<u64>(),
            need: if reused { 0 } else { self.options.segment_size },
            limit,
        })
    }

    /// Whether the cap lets another segment be prepared after `end`. `demanded`: an append waits
    /// for it. For the preparing thread.
    pub(crate) fn room(&self, end: Lsn, demanded: bool) -> Room {
        let freed = self.stage().freed;
        self.remove_surplus_spares();
        let Some(usage) = self.usage().filter(|u| !u.fits()) else {
            self.checkpoint.state().called = false;
            return Room::Ready;
        };
        if !demanded {
            self.tell_owner(end, true, &usage);
            return Room::Later;
        }
        // Readers give way before an append is refused, as they do at the pins' own limit.
        while self.pins.give_way() {
            if self.move_front().is_err() {
                break;
            }
            if self.usage().is_none_or(|u| u.fits()) {
                return Room::Ready;
            }
        }
        let full = Error::Full {
            path: self.path.clone(),
            used: usage.used,
            need: usage.need,
            limit: usage.limit,
        };
        {
            let mut state = self.checkpoint.state();
            if !state.running && std::mem::take(&mut state.called) {
                return Room::Full(full);
            }
        }
        let news = {
            // Before the callback can ask. Not where space was freed since it was counted: the
            // callback's own thread would be refused what it has just made room for.
            let mut stage = self.stage();
            let news = stage.at_cap.is_none();
            if stage.freed == freed {
                stage.at_cap = Some(full.clone());
            }
            news
        };
        if self.call(&usage, true) {
            // The callback's own appends need not wait for it. Told once: those who wait ring back.
            if news && !planted!("wake-callback-at-cap") {
                self.progress.ring(&*self.runtime);
            }
            return Room::Later;
        }
        self.stage().at_cap = None;
        Room::Full(full)
    }

    /// Calls the callback while there is space left, once for each segment.
    pub(crate) fn call_in_time(&self, end: Lsn) {
        if let Some(usage) = self.usage()
            && !usage.fits()
        {
            self.tell_owner(end, false, &usage);
        }
    }

    fn tell_owner(&self, end: Lsn, in_use: bool, usage: &Usage) {
        let told = self.checkpoint.state().told.replace((end, in_use));
        if told != Some((end, in_use)) {
            self.call(usage, false);
        }
    }

    /// Starts the callback unless it runs. Says whether it runs now.
    fn call(&self, usage: &Usage, demanded: bool) -> bool {
        let shared = self.checkpoint.shared.get().and_then(Weak::upgrade);
        if self.stage().closing {
            return false;
        }
        let Some(shared) = shared else { return false };
        let due = self.checkpoint_due(usage);
        let (callback, before) = {
            let mut state = self.checkpoint.state();
            if state.running {
                return true;
            }
            let Some(callback) = state.callback.clone() else {
                return false;
            };
            state.running = true;
            state.called = demanded;
            (callback, state.thread.take())
        };
        if let Some(thread) = before {
            // It has said that it is at its end.
            let _ = thread.join();
        }
        let body = move || {
            let ending = Ending(shared);
            INSIDE.with(|inside| inside.set(Arc::as_ptr(&ending.0)));
            // What it left behind is its owner's; the log is whole at every call.
            let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(due)));
        };
        match self.runtime.spawn("logforce-checkpoint", Box::new(body)) {
            Ok(thread) => {
                self.checkpoint.state().thread = Some(thread);
                true
            }
            Err(_) => {
                let mut state = self.checkpoint.state();
                state.running = false;
                state.called = false;
                false
            }
        }
    }

    fn checkpoint_due(&self, usage: &Usage) -> CheckpointDue {
        let mut short = (usage.used + usage.need).saturating_sub(usage.limit);
        let durable = self.durable();
        let mut truncate_to = durable;
        for segment in self.segments().all() {
            short = short.saturating_sub(segment.header.len);
            if short == 0 {
                truncate_to = segment.header.end().min(durable);
                break;
            }
        }
        CheckpointDue {
            log_id: self.log_id,
            path: self.path.clone(),
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
                let mut spares = self.spares();
                if spares.len() <= usize::from(usage.need == 0) {
                    return;
                }
                spares.pop()
            };
            let removed = spare.map(|s| self.dir.remove(&s.name));
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
    pub(crate) fn may_use_reserve(&self, stage: &Stage, bound: Lsn) -> bool {
        let reserve = KEPT_UNITS / 2 * u64::from(self.unit);
        self.is_in_callback() && bound.0.saturating_sub(reserve) <= stage.prepared_end().0
    }

    /// Refuses the callback's own thread what it would otherwise wait for itself to make room for.
    pub(crate) fn refuse_in_callback(&self, stage: &Stage) -> Result<()> {
        match &stage.at_cap {
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
            let mut state = self.checkpoint.state();
            (state.callback.take(), state.thread.take())
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
