//! Files on their way out of the log: truncated, and not yet spares or removed.

use crate::aside::{Cuts, holds_some};
use crate::log::Shared;
use crate::prepare::{Leaving, Spare, retire};
use crate::segments::Segment;
use crate::{Error, Result};
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use logforce_format::planted;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// What a truncation has still to do. Where the system fails at it, the next one goes on: the files
/// take up space until then, and would else do so until the log is opened again.
#[derive(Default)]
pub(crate) struct Retiring {
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

impl Retiring {
    pub(crate) fn keeping(cuts: Cuts) -> Self {
        Retiring {
            cuts: Mutex::new(cuts),
            ..Retiring::default()
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
}

impl Unfinished {
    /// Each of the files, also behind one with which the system fails. Answers how many bytes are
    /// spares now, or free, and the first failure.
    fn finish(&mut self, shared: &Shared) -> (u64, Result<()>) {
        let mut failed = None;
        for segment in std::mem::take(&mut self.segments) {
            let room =
                shared.spares().len() + self.spares.len() < shared.options.max_spare_segments;
            let (start, end) = (segment.header.start, segment.header.end());
            let cut = holds_some(&shared.retiring.cuts(), start, end);
            let leaving = if cut && !planted!("given-up-is-reused") {
                Leaving::Keep
            } else if room && segment.header.len == shared.options.segment_size {
                Leaving::Reuse
            } else {
                Leaving::Remove
            };
            match retire(&shared.dir, &segment, leaving) {
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
        match shared.dir.sync() {
            Err(e) => {
                let e = Error::io("sync directory", shared.dir.path())(e);
                (0, Err(failed.unwrap_or(e)))
            }
            Ok(()) => (
                std::mem::take(&mut self.leaving),
                failed.map_or(Ok(()), Err),
            ),
        }
    }
}

/// Makes spares of the files that left the log, or removes them, and tells whoever waits for space.
/// By whoever has the turn.
///
/// # Errors
/// Of the system; what is left is done by the next call.
pub(crate) fn finish(shared: &Shared) -> Result<()> {
    let mut unfinished = std::mem::take(&mut *shared.retiring.lock());
    if unfinished.segments.is_empty() && unfinished.leaving == 0 {
        return Ok(());
    }
    let (freed, finished) = unfinished.finish(shared);
    if freed > 0 {
        shared.spares().append(&mut unfinished.spares);
        shared.retiring.bytes.fetch_sub(freed, SeqCst);
    }
    *shared.retiring.lock() = unfinished;
    if freed > 0 {
        // Space came free: whatever could not be prepared may be tried again.
        {
            let mut stage = shared.stage();
            stage.prepare_failure = None;
            stage.at_cap = None;
            stage.freed += 1;
        }
        shared.prepare.ring(&*shared.runtime);
    }
    finished
}
