//! Where the log's files were when it was opened.

use crate::names;
use crate::storage::segment::Segment;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use logforce_device::{Directory, FileIdentity};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// What the files were when they were opened, by their names.
pub(crate) struct Location {
    pub(crate) control: Option<FileIdentity>,
    /// Without it another process could lock, and write, the same log.
    pub(crate) lock: Option<FileIdentity>,
    /// Those that are written to, or will be, by their starts.
    segments: Mutex<BTreeMap<Lsn, Option<FileIdentity>>>,
    /// The end of the log when it was opened.
    pub(crate) opened_at: Lsn,
    /// The writer thread sleeps, and is to be woken when something is written.
    parked: AtomicBool,
}

impl Location {
    /// To be called once all of them are open.
    pub(crate) fn new<'a>(
        dir: &Arc<dyn Directory>,
        segments: impl Iterator<Item = &'a Arc<Segment>>,
        opened_at: Lsn,
    ) -> Self {
        let location = Location {
            control: dir.identity_of(names::CONTROL).ok(),
            lock: dir.identity_of(names::LOCK).ok(),
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

    /// A segment was made, and will be written to.
    pub(crate) fn add(&self, dir: &Arc<dyn Directory>, segment: &Segment) {
        let identity = dir.identity_of(&segment.name()).ok();
        self.segments().insert(segment.header.start, identity);
    }

    /// Those that are not full and forced yet.
    pub(crate) fn in_use(&self, durable: Lsn) -> Vec<(Lsn, Option<FileIdentity>)> {
        let mut segments = self.segments();
        let first = segments.range(..=durable).next_back();
        if let Some(first) = first.map(|(start, _)| *start) {
            *segments = segments.split_off(&first);
        }
        segments.iter().map(|(start, id)| (*start, *id)).collect()
    }

    /// The writer thread will not look before something is written. Under the log's mutex, so that
    /// whoever publishes the next write sees it.
    pub(crate) fn park(&self) {
        self.parked.store(true, Release);
    }

    /// The writer thread is awake.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, SeqCst);
    }

    /// Whether the writer thread is to be woken when something is written.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Acquire)
    }
}
