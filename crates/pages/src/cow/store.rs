//! Parts of an open copy-on-write file.

use crate::cow::node_store::NodeStore;
use crate::cow::standing::StandingHolds;
use crate::cow::state::{Hold, State};
use crate::error::Result;
use crate::files::DataDir;
use crate::options::WriteThroughLimit;
use crate::types::Stats;
use logforce_core::Granted;
use logforce_device::Event;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{JoinHandle, Runtime};
use logforce_format::PageFileHeader;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Copy-on-write file that is open for reading and writing.
pub(crate) struct CowStore {
    pub(crate) data_dir: DataDir,
    /// Header at the opening, for the fields that never change.
    pub(crate) header: PageFileHeader,
    pub(crate) medium: NodeStore,
    pub(crate) guarantee: Granted,
    /// True if a write-through guarantees as much as a barrier here.
    pub(crate) is_write_through_enough: bool,
    /// Largest commit that is forced by write-through.
    pub(crate) write_through: WriteThroughLimit,
    /// Bytes of committed pages that may wait to be written. From there on, commits wait.
    pub(crate) most_dirty: u64,
    pub(crate) counts: Counts,
    /// Notified when the background thread has work.
    pub(crate) work: Event,
    /// Notified when the leader's token was given back.
    pub(crate) turn_ended: Event,
    pub(crate) background: Mutex<Option<Box<dyn JoinHandle>>>,
    pub(crate) state: Mutex<State>,
    /// Holds that new views share, outside the mutex. Changed with the state locked.
    pub(crate) standing: Arc<StandingHolds<Hold>>,
}

/// Counters for [`Stats`].
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) barriers: AtomicU64,
    pub(crate) headers: AtomicU64,
    pub(crate) waits: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }
}

impl CowStore {
    /// Locks the state. The lock is never held during a call of the runtime or of a file.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.data_dir.runtime
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        self.data_dir.check_process()
    }

    pub(crate) fn header(&self) -> PageFileHeader {
        self.header
    }

    pub(crate) fn path(&self) -> &Path {
        &self.data_dir.path
    }

    pub(crate) fn guarantee(&self) -> Granted {
        self.guarantee
    }

    pub(crate) fn stats(&self) -> Stats {
        let counts = &self.counts;
        let dirty = self.lock().groups.dirty_bytes();
        Stats {
            commits: counts.commits.load(Relaxed),
            conflicts: counts.conflicts.load(Relaxed),
            pages_committed: counts.pages.load(Relaxed),
            bytes_written: counts.bytes_written.load(Relaxed),
            writes: counts.writes.load(Relaxed),
            barriers: counts.barriers.load(Relaxed),
            headers: counts.headers.load(Relaxed),
            memory: self.medium.cache.bytes() + dirty,
            waits: counts.waits.load(Relaxed),
            ..Stats::default()
        }
    }
}
