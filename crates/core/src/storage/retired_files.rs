//! Files on their way out of the log: truncated, and not yet spares or removed.

use crate::error::{Error, Result};
use crate::storage::builder::{Leaving, Spare, retire};
use crate::storage::cuts::{Cuts, holds_some};
use crate::storage::segment::Segment;
use logforce_device::Directory;
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use logforce_format::planted;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// Which files become spares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reuse {
    /// So many more.
    pub(crate) room: usize,
    /// Those of this length.
    pub(crate) len: u64,
}

/// What a truncation has still to do. Where the system fails at it, the next one goes on: the files
/// take up space until then, and would else do so until the log is opened again.
#[derive(Default)]
pub(crate) struct RetiredFiles {
    /// Of all of them.
    bytes: AtomicU64,
    unfinished: Mutex<Unfinished>,
    /// What was given up at damage: files that hold some of it are kept.
    cuts: Mutex<Cuts>,
}

#[derive(Default)]
struct Unfinished {
    /// Neither renamed nor removed.
    segments: Vec<Arc<Segment>>,
    /// Renamed; a crash may leave their old names.
    spares: Vec<Spare>,
    /// Bytes of those, and of files that were removed since the directory was last synced.
    leaving: u64,
}

impl RetiredFiles {
    pub(crate) fn keeping(cuts: Cuts) -> Self {
        RetiredFiles {
            cuts: Mutex::new(cuts),
            ..RetiredFiles::default()
        }
    }

    fn cuts(&self) -> MutexGuard<'_, Cuts> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is kept any more.
    pub(crate) fn forget_cuts(&self) {
        self.cuts().clear();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Files leave the log; under the lock of the segments, so that they are never counted nowhere.
    pub(crate) fn begin(&self, gone: Vec<Arc<Segment>>) {
        let bytes = gone.iter().map(|s| s.header.len).sum();
        self.lock().segments.extend(gone);
        self.bytes.fetch_add(bytes, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes spares of the files that left the log, or removes them. Answers how many bytes came
    /// free. Gives the new spares to `add` before those bytes count as free.
    ///
    /// By whoever has the turn to move the front. What the system fails at is done by the next call.
    pub(crate) fn finish(
        &self,
        dir: &Arc<dyn Directory>,
        reuse: Reuse,
        add: impl FnOnce(&mut Vec<Spare>),
    ) -> (u64, Result<()>) {
        let mut unfinished = std::mem::take(&mut *self.lock());
        if unfinished.segments.is_empty() && unfinished.leaving == 0 {
            return (0, Ok(()));
        }
        let cuts = self.cuts().clone();
        let (freed, finished) = unfinished.finish(dir, reuse, &cuts);
        if freed > 0 {
            add(&mut unfinished.spares);
            self.bytes.fetch_sub(freed, SeqCst);
        }
        *self.lock() = unfinished;
        (freed, finished)
    }
}

impl Unfinished {
    /// Each of the files, also behind one with which the system fails. Answers how many bytes are
    /// spares now, or free, and the first failure.
    fn finish(&mut self, dir: &Arc<dyn Directory>, reuse: Reuse, cuts: &Cuts) -> (u64, Result<()>) {
        let mut failed = None;
        for segment in std::mem::take(&mut self.segments) {
            let cut = holds_some(cuts, segment.header.start, segment.header.end());
            let leaving = if cut && !planted!("given-up-is-reused") {
                Leaving::Keep
            } else if self.spares.len() < reuse.room && segment.header.len == reuse.len {
                Leaving::Reuse
            } else {
                Leaving::Remove
            };
            match retire(dir, &segment, leaving) {
                Ok(spare) => {
                    self.spares.extend(spare);
                    self.leaving += segment.header.len;
                }
                Err(e) => {
                    self.segments.push(segment);
                    failed.get_or_insert(e);
                }
            }
        }
        // A spare is written to, and must not be found under the name of a segment then.
        match dir.sync() {
            Err(e) => {
                let e = Error::io("sync directory", dir.path())(e);
                (0, Err(failed.unwrap_or(e)))
            }
            Ok(()) => (
                std::mem::take(&mut self.leaving),
                failed.map_or(Ok(()), Err),
            ),
        }
    }
}
