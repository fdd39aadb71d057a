//! The engine: the state that the log's callers and its threads share, and the path of a record.
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
pub(crate) mod replica;
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
/// **Lock order**: the turn of the pins ([`PinTable::begin_move`]), the turn of the control file
/// ([`ControlFile::update`]), [`state`](Self::state), then one of the mutexes that are held for a few
/// instructions: segments, voids, pins, spares, the request for a checkpoint. `view.segments` stays locked
/// while `files.retired` takes the segments that leave it, so that their bytes are always in one of the
/// two. The two turns are held across I/O; they wait through the runtime. No mutex is held across a call
/// of the device or of the owner.
pub(crate) struct Engine {
    /// State that readers use; they may outlive the log. `durable` is stored with the state locked
    /// (`publish`) and read without a lock. `front` is raised in the turn of the pins. The preallocator adds
    /// segments before the control file lists them; they are removed in the turn of the pins.
    pub(crate) view: Arc<View>,
    /// Options and the values derived from them; constant.
    pub(crate) config: Config,
    /// The log buffer, the pipeline of batches and jobs, the queue of segments, the lifecycle. Every
    /// append, leader and background thread changes it. Locked for memory accesses only, never across I/O.
    pub(crate) state: Mutex<State>,
    pub(crate) files: Files,
    /// Pins, which hold the front for readers: a mutex for the table, and a turn for the thread that moves
    /// the front.
    pub(crate) pins: PinTable,
    /// Identities of the log's files, to notice that they were moved or deleted.
    pub(crate) location: Location,
    /// The first failure. The thread that meets it sets it once, without locking the state. Every call
    /// reads it without a lock before it gives a guarantee.
    pub(crate) poison: Poison,
    /// Exclusive end of what is written. Raised with the state locked (`publish`), read without a lock.
    written: AtomicU64,
    /// Notified without any lock held. Otherwise a woken thread would wait for that lock at once.
    pub(crate) events: Events,
    /// The log's threads. A close takes them out and joins them without the lock.
    pub(crate) threads: Mutex<Vec<Box<dyn JoinHandle>>>,
    /// The preallocator must stop, even in the middle of a segment. Set by a close, read without a lock.
    pub(crate) stop: AtomicBool,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` for a log outside an environment.
    pub(crate) membership: Option<Membership>,
}

/// The log's files except the segments, which are in the view.
pub(crate) struct Files {
    /// The control file. Updates take turns, so that sequence numbers reach the file in order.
    pub(crate) control: ControlFile,
    /// Files to reuse. A truncation that retires segments adds them; the preallocator takes them.
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

    /// Returns the durable LSN: the exclusive end of the durable records.
    pub(crate) fn durable(&self) -> Lsn {
        self.view.durable()
    }

    /// Returns the written LSN: the exclusive end of the written records, forced or not.
    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.written.load(Acquire))
    }

    /// Returns the front: records below are gone.
    pub(crate) fn front(&self) -> Lsn {
        self.view.front()
    }

    /// Fails in a forked child, and if the log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.view.check_process()?;
        self.poison.check()
    }

    /// Returns the guarantee that the records below `end` have now.
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

    /// Returns the guarantee of the written records below `end` without a force. The weakest of the
    /// records that are not durable counts, because recovery ends the log before the first lost one.
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

    /// Sleeps until the progress event is notified. Returns at once if it was since `seen` was observed.
    pub(crate) fn wait_for_progress(&self, seen: u32, what: WaitFor) {
        self.events.progress.wait(self.runtime(), seen, None, what);
    }

    /// Returns the statistics since the log was opened.
    pub(crate) fn stats(&self) -> Stats {
        let replicated = self.view.replicated.lsn();
        self.metrics
            .read(self.runtime().now(), self.durable(), replicated)
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
