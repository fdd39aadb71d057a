//! The engine: what the log's callers and its threads share, and the path of a record.
//!
//! `append` reserves space and copies the record into the log buffer. `commit` waits, or leads a
//! job and writes. `publish` moves the watermarks and wakes the waiters. None of them calls the
//! device with the mutex held.

pub(crate) mod append;
pub(crate) mod commit;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod events;
mod failure;
pub(crate) mod lifecycle;
pub(crate) mod location;
pub(crate) mod membership;
pub(crate) mod own_threads;
pub(crate) mod pin_table;
pub(crate) mod publish;
pub(crate) mod start;

use crate::error::Result;
use crate::metrics::{Metrics, Stats};
use crate::read::view::View;
use crate::state::State;
use crate::storage::builder::Spare;
use crate::storage::control_file::ControlFile;
use crate::storage::retired_files::RetiredFiles;
use crate::sync::poison::Poison;
use crate::sync::wake::WaitFor;
use config::Config;
use events::{Events, Wakeups};
use location::Location;
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use logforce_device::{Granted, Guarantee, JoinHandle, Runtime};
use logforce_format::{Lsn, planted};
use membership::Membership;
use pin_table::PinTable;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// The shared state of an open log.
///
/// **Order of locks**, the first first: the turn of the pins ([`PinTable::begin_move`]), the turn of the
/// control file ([`ControlFile::update`]), [`state`](Self::state), then one of the mutexes that are held
/// for a few instructions: segments, voids, pins, spares, the request for a checkpoint. `view.segments` is held while
/// `files.retired` takes what leaves it, so that its bytes are always in one of the two. The two turns
/// are held across I/O; they wait through the runtime. No mutex is held across a call of the device or
/// of the owner.
pub(crate) struct Engine {
    /// State that readers use; they may outlive the log. `durable` is stored with the state locked
    /// (`publish`) and read without a lock; `front` is raised in the turn of the pins; segments are added
    /// by the preallocator, before the control file lists them, and removed in the turn of the pins.
    pub(crate) view: Arc<View>,
    /// Options and what follows from them. Nothing in it changes.
    pub(crate) config: Config,
    /// The log buffer, the pipeline of batches and jobs, the queue of segments, the lifecycle. Every
    /// append, leader and background thread changes it. Locked for memory only.
    pub(crate) state: Mutex<State>,
    pub(crate) files: Files,
    /// Pins, which hold the front for readers: a mutex for the table, and a turn for whoever moves the
    /// front.
    pub(crate) pins: PinTable,
    /// Where the log was opened, to notice that it was moved or deleted.
    pub(crate) location: Location,
    /// The first failure. Set once by whoever meets it, without the state; read without a lock by every
    /// call before it promises something.
    pub(crate) poison: Poison,
    /// Exclusive end of what is written. Raised with the state locked (`publish`), read without a lock.
    written: AtomicU64,
    /// Notified without any lock held: a thread that is woken would wait for it at once.
    pub(crate) events: Events,
    /// The log's threads, for a close to join. It takes them out and joins without the lock.
    pub(crate) threads: Mutex<Vec<Box<dyn JoinHandle>>>,
    /// The preallocator must stop, also in the middle of a segment. Set by a close, read without a lock.
    pub(crate) stop: AtomicBool,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` for a log with threads of its own.
    pub(crate) membership: Option<Membership>,
}

/// The log's files except the segments, which are in the view.
pub(crate) struct Files {
    /// Written in its turn, so that sequence numbers reach the file in order.
    pub(crate) control: ControlFile,
    /// Files to use again: added when a truncation retires segments, taken by the preallocator.
    spares: Mutex<Vec<Spare>>,
    /// Files of truncated segments that are yet to become spares or be removed.
    pub(crate) retired: RetiredFiles,
    /// The writer lock, released when all I/O is joined.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Files {
    pub(crate) fn spares(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn threads(&self) -> MutexGuard<'_, Vec<Box<dyn JoinHandle>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.view.runtime
    }

    /// Exclusive end of what is durable.
    pub(crate) fn durable(&self) -> Lsn {
        self.view.durable()
    }

    /// Exclusive end of what is written, forced or not.
    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.written.load(Acquire))
    }

    /// Records below are gone.
    pub(crate) fn front(&self) -> Lsn {
        self.view.front()
    }

    /// Fails in a forked child, and if the log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.view.check_process()?;
        self.poison.check()
    }

    /// The guarantee that the records below `end` have now.
    pub(crate) fn guarantee_at(&self, end: Lsn) -> Granted {
        if self.durable() >= end {
            self.config.force.granted()
        } else if self.written() >= end {
            planted!("guarantee-overstated", Guarantee::PowerLoss, else self.guarantee_written(end))
                .into()
        } else {
            Guarantee::Nothing.into()
        }
    }

    /// Returns the length of the next segment, bytes, while appends wait for `requested` bytes.
    pub(crate) fn next_segment_len(&self, requested: u64) -> u64 {
        let held = self.view.segments().bytes();
        let now = self.runtime().now();
        self.config.sizes.next(held, requested, now)
    }

    /// What the written records below `end` survive without a force: the weakest of those that are not
    /// durable counts, since recovery ends the log before the first that is lost.
    fn guarantee_written(&self, end: Lsn) -> Guarantee {
        let force = &self.config.force;
        if !force.needs_written() {
            return force.written;
        }
        let unforced = self.durable()..end;
        if planted!("first-write-overstated") {
            return force.written;
        }
        match self.view.segments().has_unwritten(unforced) {
            true => force.first_written,
            false => force.written,
        }
    }

    /// Sleeps until `answer` returns `Some`.
    pub(crate) fn wait_for<T>(&self, mut answer: impl FnMut(&State) -> Option<T>) -> T {
        loop {
            let seen = self.events.progress.observe();
            if let Some(found) = answer(&self.state()) {
                return found;
            }
            self.wait_for_progress(seen, WaitFor::Close);
        }
    }

    /// Sleeps until there is progress. Returns at once if there was any since `seen` was observed.
    pub(crate) fn wait_for_progress(&self, seen: u32, what: WaitFor) {
        self.events.progress.wait(self.runtime(), seen, None, what);
    }

    /// What the log has done since it was opened.
    pub(crate) fn stats(&self) -> Stats {
        self.metrics.read(self.runtime().now(), self.durable())
    }

    /// Wakes the log's threads. Call it with the mutex released.
    pub(crate) fn wake(&self, wakeups: Wakeups) {
        use crate::sync::wake::Wake;
        if wakeups.writer {
            self.events.writer.notify(self.runtime(), Wake::Writer);
        }
        if wakeups.preallocator {
            self.events
                .preallocator
                .notify(self.runtime(), Wake::Preallocator);
        }
        if wakeups.space {
            self.wake_blocked(Wake::SpaceReleased);
        }
    }
}
