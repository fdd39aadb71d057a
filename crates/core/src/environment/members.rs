//! The logs of an environment.

use crate::error::Result;
use logforce_device::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};

/// An open log of an environment.
pub(crate) trait Member: Send + Sync {
    /// Returns the log's directory.
    fn path(&self) -> &Path;

    /// Closes the log in the calling thread.
    fn close(&self) -> Result<()>;
}

/// The logs of an environment.
#[derive(Default)]
pub(crate) struct Members {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Number of the next log.
    next: u64,
    /// Logs by number; `None` while a log is being opened.
    logs: BTreeMap<u64, Option<Weak<dyn Member>>>,
}

impl Members {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.known().logs.len()
    }

    /// Adds a log that is being opened, and returns its number.
    pub(crate) fn add(&self) -> u64 {
        let mut known = self.known();
        let number = known.next;
        known.next += 1;
        known.logs.insert(number, None);
        number
    }

    /// Records that the log of this number is open.
    pub(crate) fn opened(&self, number: u64, log: Weak<dyn Member>) {
        if let Some(entry) = self.known().logs.get_mut(&number) {
            *entry = Some(log);
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        self.known().logs.remove(&number);
    }

    /// Returns the open logs in the order in which they were opened.
    pub(crate) fn open(&self) -> Vec<Arc<dyn Member>> {
        let known = self.known();
        let all = known.logs.values().flatten();
        all.filter_map(Weak::upgrade).collect()
    }
}
