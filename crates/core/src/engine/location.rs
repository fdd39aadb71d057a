//! Location of the log: detects that its directory or a file was moved, deleted or replaced.
//!
//! Open files stay writable after they, or their directory, are removed. fsync still succeeds, but no
//! opening will ever find the records. So the log compares the files behind its names with those that it
//! opened: at intervals while it writes, and before it adds a segment, writes a stamp, changes the control
//! file or closes.

use crate::names;
use crate::read::view::View;
use crate::state::pipeline::WritePipeline;
use crate::storage::segment::Segment;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use logforce_device::{Directory, Displacement, FileIdentity, NamedFiles, change_of};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// File identities (device and inode, or the like) behind the names of the log's files.
pub(crate) struct Location {
    /// The control file and the lock file. If the lock file is replaced, another process can lock and write
    /// the same log.
    pub(crate) own: NamedFiles,
    /// Other files that the log's owner needs to find the log.
    pub(crate) beside: OnceLock<NamedFiles>,
    /// Segments that are being written or will be, by start.
    segments: Mutex<BTreeMap<Lsn, Option<FileIdentity>>>,
    /// End of the log when it was opened.
    pub(crate) opened_at: Lsn,
    /// The writer thread sleeps, and must be woken after the next write.
    parked: AtomicBool,
}

impl Location {
    /// Records the identities of the files. Call it once all files are open.
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

    /// Returns the segments that are not yet full and forced.
    pub(crate) fn in_use(&self, durable: Lsn) -> Vec<(Lsn, Option<FileIdentity>)> {
        let mut segments = self.segments();
        let first = segments.range(..=durable).next_back();
        if let Some(first) = first.map(|(start, _)| *start) {
            *segments = segments.split_off(&first);
        }
        segments.iter().map(|(start, id)| (*start, *id)).collect()
    }

    /// Notes that the writer thread makes no check before the next write. Called under the log's mutex, so
    /// that the thread that publishes that write sees the note.
    pub(crate) fn park(&self) {
        self.parked.store(true, Release);
    }

    /// Notes that the writer thread runs.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, SeqCst);
    }

    /// Returns true if the writer thread must be woken after a write.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Acquire)
    }

    /// Returns the displacement of the log's files, if there is one.
    pub(super) fn displaced(&self, view: &View, durable: Lsn) -> Option<Displacement> {
        // Checks a directory after the files in it, and reports the directory first. If the whole directory
        // is removed during the check, the loss of its files may be noticed first.
        let segment = self.displaced_segment(view, durable);
        let own = self.own.displacement();
        let beside = self.beside.get().and_then(NamedFiles::displacement);
        beside.or(own).or(segment)
    }

    /// Returns the displacement of a segment in use, if there is one.
    fn displaced_segment(&self, view: &View, durable: Lsn) -> Option<Displacement> {
        for (start, known) in self.in_use(durable) {
            let segment = view.segments().containing(start);
            let name = segment.as_ref().map(|s| s.name());
            let (Some(segment), Some(name)) = (segment, name) else {
                continue;
            };
            let Some(what) = change_of(&*view.dir, &name, known) else {
                continue;
            };
            // Not displaced if the log has filled the segment meanwhile and a truncation has renamed it.
            let now = view.segments().containing(start);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &segment)) {
                return Some(Displacement {
                    path: view.path.clone(),
                    found: format!("its segment '{name}' was {what}"),
                });
            }
        }
        None
    }
}

/// The writer thread's last check.
pub(crate) struct LastCheck {
    /// Written LSN and durable LSN at that time.
    outcome: (Lsn, Lsn),
    at: Option<Duration>,
}

/// Time of the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Not before the next write is done.
    No,
    At(Duration),
    Now,
}

impl LastCheck {
    /// Counts the opening as the last check.
    pub(crate) fn new(location: &Location) -> Self {
        LastCheck {
            outcome: (location.opened_at, location.opened_at),
            at: None,
        }
    }

    /// Returns the time of the next check. If it is due now, this counts it as done.
    pub(crate) fn due(&mut self, pipeline: &WritePipeline, now: Duration) -> Due {
        let outcome = (pipeline.written(), pipeline.durable());
        match self.at.map(|at| at.saturating_add(NamedFiles::CHECK_EVERY)) {
            // Even if nothing was written since: the thread then wakes by itself, and the next committer
            // need not wake it.
            Some(next) if next > now => Due::At(next),
            _ if outcome == self.outcome => Due::No,
            _ => {
                self.outcome = outcome;
                self.at = Some(now);
                Due::Now
            }
        }
    }
}
