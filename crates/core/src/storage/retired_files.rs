//! Files of truncated segments that are neither spares nor removed yet.

use crate::error::{Error, Result};
use crate::storage::builder::{RetireAction, Spare, retire};
use crate::storage::segment::Segment;
use crate::storage::segment_sizes::SegmentSizes;
use logforce_device::Directory;
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// Condition on which files become spares.
#[derive(Clone, Copy)]
pub(crate) struct Reuse<'a> {
    /// Number of additional spares that are allowed.
    pub(crate) room: usize,
    /// Sizes of segments. Only files that can be the next segment become spares.
    pub(crate) sizes: &'a SegmentSizes,
    /// Wanted size of the next segment, bytes.
    pub(crate) wanted: u64,
}

/// Unfinished work of truncations. If a call of the system fails, the next truncation tries again. Otherwise
/// the files would take up space until the log is opened again.
#[derive(Default)]
pub(crate) struct RetiredFiles {
    /// Total size of the files, bytes.
    bytes: AtomicU64,
    unfinished: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    /// Segments whose files are not renamed or removed yet.
    segments: Vec<Arc<Segment>>,
    /// Files that are renamed, but a crash may bring back their old names.
    spares: Vec<Spare>,
    /// Size of the files that were renamed or removed since the last sync of the directory, bytes.
    freed: u64,
}

impl RetiredFiles {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Adds files of truncated segments. The caller holds the lock of the segments, so that the space limit
    /// always counts the files, either here or as segments.
    pub(crate) fn add(&self, gone: Vec<Arc<Segment>>) {
        let bytes = gone.iter().map(|s| s.header.len).sum();
        self.lock().segments.extend(gone);
        self.bytes.fetch_add(bytes, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes spares of the files, or removes them. Returns the number of bytes that this freed. Passes new
    /// spares to `add` before it stops counting those bytes.
    ///
    /// The caller has the turn of the pins. After an error the next call tries again.
    pub(crate) fn finish(
        &self,
        dir: &Arc<dyn Directory>,
        reuse: Reuse<'_>,
        add: impl FnOnce(&mut Vec<Spare>),
    ) -> (u64, Result<()>) {
        let mut unfinished = std::mem::take(&mut *self.lock());
        if unfinished.segments.is_empty() && unfinished.freed == 0 {
            return (0, Ok(()));
        }
        let (freed, finished) = unfinished.finish(dir, reuse);
        if freed > 0 {
            add(&mut unfinished.spares);
            self.bytes.fetch_sub(freed, SeqCst);
        }
        *self.lock() = unfinished;
        (freed, finished)
    }
}

impl Unfinished {
    /// Retires each file, even after one that fails. Returns the number of bytes that are now spares or free,
    /// and the first failure.
    fn finish(&mut self, dir: &Arc<dyn Directory>, reuse: Reuse<'_>) -> (u64, Result<()>) {
        let mut failed = None;
        for segment in std::mem::take(&mut self.segments) {
            let reuses = self.spares.len() < reuse.room
                && reuse.sizes.fits(segment.header.len, reuse.wanted);
            let action = match reuses {
                true => RetireAction::Reuse,
                false => RetireAction::Remove,
            };
            match retire(dir, &segment, action) {
                Ok(spare) => {
                    self.spares.extend(spare);
                    self.freed += segment.header.len;
                }
                Err(e) => {
                    self.segments.push(segment);
                    failed.get_or_insert(e);
                }
            }
        }
        // Syncs before a spare is written. Otherwise a crash could bring back its name as a segment.
        match dir.sync() {
            Err(e) => {
                let e = Error::io("sync directory", dir.path())(e);
                (0, Err(failed.unwrap_or(e)))
            }
            Ok(()) => (std::mem::take(&mut self.freed), failed.map_or(Ok(()), Err)),
        }
    }
}
