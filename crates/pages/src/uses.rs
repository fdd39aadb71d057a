//! Uses of the files by callers that may come after closing: reads of views, and growth.

use crate::error::{Error, Result};
use logforce_device::sync::{Apart, AtomicBool, AtomicU64};
use logforce_device::{Event, Runtime};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Counter of the uses in progress, for which closing waits. The next opener may overwrite what they read,
/// and they what it writes.
pub(crate) struct Uses {
    runtime: Arc<dyn Runtime>,
    in_progress: Apart<AtomicU64>,
    is_closed: Apart<AtomicBool>,
    idle: Event,
}

/// Use in progress.
pub(crate) struct Use<'a>(&'a Uses);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let uses = self.0;
        uses.in_progress.fetch_sub(1, SeqCst);
        if uses.is_closed.load(SeqCst) {
            uses.idle.notify(&*uses.runtime);
        }
    }
}

impl Uses {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Uses {
        Uses {
            runtime,
            in_progress: Apart::default(),
            is_closed: Apart::default(),
            idle: Event::default(),
        }
    }

    /// Begins a use of the files. Refuses it once they are closed.
    pub(crate) fn begin(&self) -> Result<Use<'_>> {
        // Counts first and checks then. Closing does it in the opposite order, so one of them sees the other.
        self.in_progress.fetch_add(1, SeqCst);
        let begun = Use(self);
        self.check().map(|()| begun)
    }

    /// Refuses what needs only memory once the files are closed, as [`Uses::begin`] does with the rest.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_closed.load(SeqCst) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Refuses further uses, and waits for those in progress.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, SeqCst);
        loop {
            let seen = self.idle.observe();
            if self.in_progress.load(SeqCst) == 0 {
                return;
            }
            self.idle.wait(&*self.runtime, seen, None);
        }
    }
}
