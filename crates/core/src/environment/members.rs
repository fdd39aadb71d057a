//! Which logs an environment has.

use crate::error::Result;
use logforce_device::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};

/// An open log of an environment.
pub(crate) trait Member: Send + Sync {
    /// The log's directory.
    fn path(&self) -> &Path;

    /// Closes it, in the calling thread.
    fn close(&self) -> Result<()>;
}

/// The logs of an environment, by a number for each.
#[derive(Default)]
pub(crate) struct Members {
    logs: Mutex<(u64, BTreeMap<u64, Option<Weak<dyn Member>>>)>,
}

impl Members {
    fn logs(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Option<Weak<dyn Member>>>)> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.logs().1.len()
    }

    /// Adds a log that is being opened. Returns its number.
    pub(crate) fn add(&self) -> u64 {
        let mut logs = self.logs();
        let number = logs.0;
        logs.0 += 1;
        logs.1.insert(number, None);
        number
    }

    /// The log of this number is open.
    pub(crate) fn opened(&self, number: u64, log: Weak<dyn Member>) {
        if let Some(entry) = self.logs().1.get_mut(&number) {
            *entry = Some(log);
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        self.logs().1.remove(&number);
    }

    /// Those that are open, in the order in which they were opened.
    pub(crate) fn open(&self) -> Vec<Arc<dyn Member>> {
        let logs = self.logs();
        let all = logs.1.values().flatten();
        all.filter_map(Weak::upgrade).collect()
    }
}
