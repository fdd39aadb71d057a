//! The identities of the log's files when they were opened.

use crate::names;
use crate::storage::segment::Segment;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use logforce_device::{Directory, FileIdentity, NamedFiles};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock, PoisonError};

/// File identities (device and inode, or the like) behind the names of the log's files.
pub(crate) struct Location {
    /// The control file and the lock file. If the lock file is replaced, another process can lock and write
    /// the same log.
    pub(crate) own: NamedFiles,
    /// Files that the log's owner needs to find its log.
    pub(crate) beside: OnceLock<NamedFiles>,
    /// Segments that are being written or will be, by start.
    segments: Mutex<BTreeMap<Lsn, Option<FileIdentity>>>,
    /// The end of the log when it was opened.
    pub(crate) opened_at: Lsn,
    /// The writer thread sleeps, and must be woken after the next write.
    parked: AtomicBool,
}

impl Location {
    /// Call it once all files are open.
    pub(crate) fn new<'a>(
        dir: &Arc<dyn Directory>,
        segments: impl Iterator<Item = &'a Arc<Segment>>,
        opened_at: Lsn,
    ) -> Self {
        let mut own = NamedFiles::new(dir.clone());
        own.add(names::CONTROL);
        own.add(names::LOCK);
        let location = Location {
            own,
            beside: OnceLock::new(),
            segments: Mutex::default(),
            opened_at,
            parked: AtomicBool::new(false),
        };
        for segment in segments {
            location.add(dir, segment);
        }
        location
    }

    fn segments(&self) -> MutexGuard<'_, BTreeMap<Lsn, Option<FileIdentity>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new segment.
    pub(crate) fn add(&self, dir: &Arc<dyn Directory>, segment: &Segment) {
        let identity = dir.identity_of(&segment.name()).ok();
        self.segments().insert(segment.header.start, identity);
    }

    /// The segments that are not full and forced yet.
    pub(crate) fn in_use(&self, durable: Lsn) -> Vec<(Lsn, Option<FileIdentity>)> {
        let mut segments = self.segments();
        let first = segments.range(..=durable).next_back();
        if let Some(first) = first.map(|(start, _)| *start) {
            *segments = segments.split_off(&first);
        }
        segments.iter().map(|(start, id)| (*start, *id)).collect()
    }

    /// The writer thread makes no check before the next write. Called under the log's mutex, so
    /// that the thread that publishes that write sees it.
    pub(crate) fn park(&self) {
        self.parked.store(true, Release);
    }

    /// The writer thread runs.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, SeqCst);
    }

    /// Whether the writer thread must be woken after a write.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Acquire)
    }
}
