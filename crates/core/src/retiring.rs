//! Files on their way out of the log: truncated, and not yet spares or removed.

use crate::log::Shared;
use crate::prepare::{Spare, retire};
use crate::segments::Segment;
use crate::{Error, Result};
use logforce_device::sync::{AtomicU64, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// What a truncation has still to do. Where the system fails at it, the next one goes on: the files
/// take up space until then, and would else do so until the log is opened again.
#[derive(Default)]
pub(crate) struct Retiring {
    /// Of all of them.
    bytes: AtomicU64,
    unfinished: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    /// Neither renamed nor removed.
    segments: VecDeque<Arc<Segment>>,
    /// Renamed; a crash may leave their old names.
    spares: Vec<Spare>,
    bytes: u64,
}

impl Retiring {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Files leave the log; under the lock of the segments, so that they are never counted nowhere.
    pub(crate) fn begin(&self, gone: Vec<Arc<Segment>>) {
        let bytes: u64 = gone.iter().map(|s| s.header.len).sum();
        let mut unfinished = self.lock();
        unfinished.segments.extend(gone);
        unfinished.bytes += bytes;
        self.bytes.fetch_add(bytes, SeqCst);
    }

    fn lock(&self) -> logforce_device::sync::MutexGuard<'_, Unfinished> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Unfinished {
        std::mem::take(&mut *self.lock())
    }
}

impl Unfinished {
    fn finish(&mut self, shared: &Shared) -> Result<()> {
        while let Some(segment) = self.segments.front() {
            let room = shared.spares().len() + self.spares.len() < shared.options.spares;
            let keep = room && segment.header.len == shared.options.segment_len;
            self.spares.extend(retire(&shared.dir, segment, keep)?);
            self.segments.pop_front();
        }
        shared
            .dir
            .sync()
            .map_err(Error::io("sync directory", shared.dir.path()))
    }
}

/// Makes spares of the files that left the log, or removes them, and tells whoever waits for space.
/// By whoever has the turn.
///
/// # Errors
/// Of the system; what is left is done by the next call.
pub(crate) fn finish(shared: &Shared) -> Result<()> {
    let mut unfinished = shared.retiring.take();
    if unfinished.bytes == 0 {
        return Ok(());
    }
    if let Err(e) = unfinished.finish(shared) {
        *shared.retiring.lock() = unfinished;
        return Err(e);
    }
    shared.spares().append(&mut unfinished.spares);
    shared.retiring.bytes.fetch_sub(unfinished.bytes, SeqCst);
    // Space came free: whatever could not be prepared may be tried again.
    {
        let mut stage = shared.stage();
        stage.prepare_failure = None;
        stage.at_cap = None;
        stage.freed += 1;
    }
    shared.prepare.ring(&*shared.runtime);
    Ok(())
}
