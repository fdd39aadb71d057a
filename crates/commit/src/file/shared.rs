//! State that the users of an open file and its thread share, and the path of a write.

use crate::file::bounded::Bounded;
use crate::file::error::{Error, Result};
use crate::file::stats::Metrics;
use crate::file::wake::Wake;
use crate::method::ForceConfig;
use crate::sync::event::{Event, JobEvents};
use crate::sync::poison::Poison;
use crate::sync::runtime_mutex::RuntimeMutex;
use crate::sync::wakers::{Wakers, is_waking};
use crate::write_concurrency::WriteConcurrency;
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use logforce_device::{
    AlignedBuf, Barrier, Blocks, Directory, File, ForceBy, JoinHandle, Method, OpenFile, Runtime,
    Write, planted,
};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// Maximum size of one device write, bytes. A longer write is split.
pub(super) const LONGEST_WRITE: usize = 1 << 20;
/// Smallest buffer, bytes.
const SMALLEST_BUFFER: usize = 4096;
/// Maximum size of all buffers that are kept for reuse, bytes.
const KEPT: usize = 4 << 20;

/// Forcing of a file: how it was opened, and how it commits.
pub(super) struct Forcing {
    /// Method of a commit: writes, then a barrier. Its guarantee is that of the file.
    pub(super) by: ForceConfig,
    /// Barrier of a commit; `None` if the user has named a method without one.
    pub(super) barrier: Option<Barrier>,
    /// Method of a durable write: a write-through, if that guarantees as much as the barrier, else `by`.
    pub(super) method: Method,
    /// True if the filesystem overwrites in place.
    pub(super) in_place: bool,
    /// True if commits are durable only where they overwrite blocks: an ext4 without a journal may lose
    /// blocks in a power cut that a sync has just added to a file (docs/durability.md, A8).
    pub(super) needs_written: bool,
    /// Alignment of direct I/O, bytes.
    pub(super) direct_unit: u32,
    /// Alignment of writes in bytes; `None` if writes may begin and end anywhere.
    pub(super) unit: Option<u32>,
}

impl Forcing {
    /// Returns true if a durable write is a write-through.
    pub(super) fn is_through(&self) -> bool {
        self.method.plan().force == ForceBy::Through
    }
}

/// A held lock.
pub(super) type Lock = Box<dyn Send + Sync>;

/// An opened file, before it is used.
pub(super) struct Opened {
    pub(super) dir: Arc<dyn Directory>,
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) lock: Option<Lock>,
}

/// The shared state of an open file.
///
/// **Lock order**: `state`, `buffers` and `thread` are never held together, and none of them across a call of
/// the device.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    /// Directory of the file, and its name there.
    pub(super) dir: Arc<dyn Directory>,
    name: String,
    pub(super) runtime: Arc<dyn Runtime>,
    /// Process that opened the file: [`Runtime::process`].
    process: u64,
    pub(super) forcing: Forcing,
    /// Number of writes that have completed without being durable by themselves. A write is counted after
    /// its completion, so a sync that begins later covers it.
    pub(super) written: AtomicU64,
    /// The *horizon*: the number of those writes that are durable. Raised with the state locked.
    pub(super) durable: AtomicU64,
    /// True if the next sync must include the inode: blocks were added on a filesystem without a journal.
    pub(super) needs_full_sync: AtomicBool,
    /// Range whose blocks are known to be written; used if commits need that.
    pub(super) written_blocks: Mutex<Range<u64>>,
    /// Locked for memory accesses only.
    pub(super) state: Mutex<State>,
    pub(super) events: Events,
    pub(super) poison: Poison<Error>,
    pub(super) metrics: Metrics,
    /// Horizon up to which handles have requested a sync.
    pub(super) requested: AtomicU64,
    /// Commits that the file's thread makes within a bound.
    pub(super) bounded: Bounded,
    /// The file's thread ends once it has fulfilled the requests.
    pub(super) closing: AtomicBool,
    /// The file's thread, from the first submission on.
    pub(super) thread: Mutex<Option<Box<dyn JoinHandle>>>,
    /// Held while that thread is started.
    pub(super) starting: RuntimeMutex,
    buffers: Mutex<Vec<AlignedBuf>>,
    /// Released last, when no handle and no thread can use the file any more.
    _lock: Option<Lock>,
}

/// State under the mutex.
pub(super) struct State {
    /// Commits that wait, and the limit of the number of forces in flight.
    pub(super) concurrency: WriteConcurrency,
    /// Number of forces in flight: syncs and durable writes.
    pub(super) in_flight: usize,
    /// Horizon that the sync in flight will reach; `None` if there is none.
    pub(super) syncing_to: Option<u64>,
    /// Number of the sync in flight, or of the next one.
    pub(super) sync_number: u32,
    /// True if a thread waits to lead the next sync.
    pub(super) has_next_leader: bool,
}

/// The events of a file. Each is notified after the change that it reports is visible.
#[derive(Default)]
pub(super) struct Events {
    /// A force has ended: wakes the next leader.
    pub(super) next_leader: Event,
    /// A sync has ended: wakes the committers that it covers.
    pub(super) syncs: JobEvents,
    /// A submission, or the end of the file.
    pub(super) work: Event,
    /// Tasks that wait for the horizon.
    pub(super) tasks: Wakers,
}

impl Shared {
    pub(super) fn new(
        path: PathBuf,
        opened: Opened,
        runtime: Arc<dyn Runtime>,
        forcing: Forcing,
        concurrency: WriteConcurrency,
    ) -> Shared {
        let written_blocks = match (forcing.needs_written, opened.file.len()) {
            (true, Ok(len)) if opened.file.blocks(0..len) == Blocks::Written => 0..len,
            _ => 0..0,
        };
        Shared {
            path,
            file: opened.file,
            dir: opened.dir,
            name: opened.name,
            process: runtime.process(),
            starting: RuntimeMutex::new(runtime.clone()),
            runtime,
            forcing,
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            needs_full_sync: AtomicBool::new(false),
            written_blocks: Mutex::new(written_blocks),
            state: Mutex::new(State {
                concurrency,
                in_flight: 0,
                syncing_to: None,
                sync_number: 0,
                has_next_leader: false,
            }),
            events: Events::default(),
            poison: Poison::default(),
            metrics: Metrics::default(),
            requested: AtomicU64::new(0),
            bounded: Bounded::default(),
            closing: AtomicBool::new(false),
            thread: Mutex::new(None),
            buffers: Mutex::new(Vec::new()),
            _lock: opened.lock,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// Returns true in the process that opened the file, false in a forked child.
    pub(super) fn is_own_process(&self) -> bool {
        self.runtime.process() == self.process
    }

    /// Fails if the file has failed, in a forked child, and in a waker.
    pub(super) fn check(&self) -> Result<()> {
        self.check_fork()?;
        if is_waking() {
            return Err(Error::InWaker);
        }
        self.check_poison()
    }

    /// Fails in a forked child.
    pub(super) fn check_fork(&self) -> Result<()> {
        let path = || self.path.clone();
        match self.is_own_process() {
            true => Ok(()),
            false => Err(Error::Forked { path: path() }),
        }
    }

    pub(super) fn check_poison(&self) -> Result<()> {
        match self.poison.cause() {
            Some(cause) => Err(self.poisoned(cause)),
            None => Ok(()),
        }
    }

    fn poisoned(&self, cause: Arc<Error>) -> Error {
        Error::Poisoned {
            path: self.path.clone(),
            cause,
        }
    }

    /// Poisons the file and wakes all waiting threads and tasks. Returns the error for the caller.
    pub(super) fn fail(&self, cause: Error) -> Error {
        let error = self.poisoned(self.poison.set(cause));
        // A committer that saw no failure holds the state until it has observed its event. Otherwise it could
        // observe the event after these notifications, and sleep for ever.
        if !planted!("file-fails-beside-committers") {
            drop(self.state());
        }
        let (events, runtime) = (&self.events, self.runtime());
        events.next_leader.notify(runtime, Wake::FailedLeader);
        events.syncs.notify_all(runtime, Wake::FailedCommits);
        events.tasks.wake_all(Wake::FailedTasks);
        error
    }

    /// Syncs the file by the descriptor that has written it. Another one could miss an error: Linux reports
    /// a failed write-back once to each open file, and not to one that was opened later.
    pub(super) fn sync_file(&self, barrier: Barrier) -> io::Result<()> {
        if planted!("file-synced-by-another-descriptor") {
            return self.dir.open(&self.name, OpenFile::WRITE)?.barrier(barrier);
        }
        self.file.barrier(barrier)
    }

    /// Returns the error of a range that no file can have.
    pub(super) fn not_a_range(&self, start: u64, end: u64) -> Error {
        let path = self.path.clone();
        Error::Range { path, start, end }
    }

    /// Returns the length of the slices if they may be written at `offset`.
    pub(super) fn check_range(&self, slices: &[&[u8]], offset: u64) -> Result<usize> {
        let len: usize = slices.iter().map(|s| s.len()).sum();
        let end = offset.saturating_add(len as u64);
        if i64::try_from(end).is_err() {
            return Err(self.not_a_range(offset, end));
        }
        self.check_blocks(offset..end)?;
        match self.forcing.unit {
            Some(unit) if !(offset | len as u64).is_multiple_of(unit.into()) => {
                Err(Error::Misaligned {
                    path: self.path.clone(),
                    offset,
                    len,
                    unit,
                })
            }
            _ => Ok(len),
        }
    }

    /// Fails if the blocks of the range have to be written first, and are not known to be.
    fn check_blocks(&self, range: Range<u64>) -> Result<()> {
        if !self.forcing.needs_written {
            return Ok(());
        }
        let known = self.written_blocks.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        let is_known = known.start <= range.start && range.end <= known.end;
        match is_known || range.is_empty() {
            true => Ok(()),
            false => Err(Error::Unprepared {
                path: self.path.clone(),
                start: range.start,
                end: range.end,
            }),
        }
    }

    /// Notes that the blocks of the range are written.
    pub(super) fn note_written(&self, range: &Range<u64>) {
        let known = self.written_blocks.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        let touches = range.start <= known.end && known.start <= range.end;
        *known = match touches {
            true => known.start.min(range.start)..known.end.max(range.end),
            false => range.clone(),
        };
    }

    /// Writes the slices, and counts the write so that later commits cover it. A failure poisons the file.
    pub(super) fn write(&self, slices: &[&[u8]], offset: u64) -> Result<()> {
        if slices.iter().all(|s| s.is_empty()) {
            return Ok(());
        }
        self.write_pieces(slices, offset, false)?;
        // Only now: a sync that began before the write ended may not have covered it.
        if !planted!("file-write-counted-early") {
            self.written.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// Writes the slices in pieces of at most [`LONGEST_WRITE`]. A failure poisons the file: a part may be on
    /// the medium, and the system's cache may hold what the medium lacks.
    pub(super) fn write_pieces(
        &self,
        slices: &[&[u8]],
        mut offset: u64,
        through: bool,
    ) -> Result<()> {
        let mut left: usize = slices.iter().map(|s| s.len()).sum();
        let (mut slice, mut within) = (0, 0);
        while left > 0 {
            let len = left.min(LONGEST_WRITE);
            let mut buf = self.take_buffer(len);
            let mut filled = 0;
            while filled < len {
                let rest = &slices[slice][within..];
                let now = rest.len().min(len - filled);
                buf[filled..filled + now].copy_from_slice(&rest[..now]);
                (filled, within) = (filled + now, within + now);
                if within == slices[slice].len() {
                    (slice, within) = (slice + 1, 0);
                }
            }
            self.write_buffer(buf, len, offset, through)?;
            offset += len as u64;
            left -= len;
        }
        Ok(())
    }

    fn write_buffer(&self, buf: AlignedBuf, len: usize, offset: u64, through: bool) -> Result<()> {
        if planted!("file-write-counted-early") {
            self.written.fetch_add(1, SeqCst);
        }
        let ticket = self.file.submit(Write {
            offset,
            buf,
            range: 0..len,
            through,
        });
        let done = self.file.complete(ticket);
        self.metrics.counted.writes.add(1);
        self.metrics.counted.write_bytes.add(len as u64);
        self.keep_buffer(done.buf);
        let doing = match through {
            true => "write through to",
            false => "write to",
        };
        done.result
            .map_err(|e| self.fail(Error::io(doing, &self.path)(e)))
    }

    pub(super) fn take_buffer(&self, len: usize) -> AlignedBuf {
        let kept = {
            let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = buffers.iter().rposition(|b| b.len() >= len);
            fits.map(|at| buffers.swap_remove(at))
        };
        let alignment = self.forcing.direct_unit.max(4096) as usize;
        let size = len.next_power_of_two().max(SMALLEST_BUFFER);
        kept.unwrap_or_else(|| AlignedBuf::zeroed(size, alignment))
    }

    pub(super) fn keep_buffer(&self, buf: AlignedBuf) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = buffers.iter().map(|b| b.len()).sum();
        if kept + buf.len() <= KEPT {
            buffers.push(buf);
        }
    }
}
