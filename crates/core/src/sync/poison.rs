//! Poisoning: after a failed write or barrier the log accepts no more records until it is opened again. The
//! contents of the system's cache are then unknown, and a repeated fsync may report success for bytes that
//! the system has dropped.

use crate::error::{Error, Result};
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex};
use logforce_format::{Lsn, planted};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// The first failed write or barrier. After it the log accepts no more records.
#[derive(Default)]
pub(crate) struct Poison {
    is_set: AtomicBool,
    cause: Mutex<Option<Arc<Error>>>,
    /// Durable LSN, for the error message.
    pub(crate) durable: AtomicU64,
}

impl Poison {
    /// Sets the cause, unless it is already set. Returns the error for the caller.
    pub(crate) fn set(&self, cause: Error) -> Error {
        if let Error::Poisoned { .. } = cause {
            return cause;
        }
        if planted!("order-poison") {
            self.is_set.store(true, Release);
        }
        let mut slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = slot.get_or_insert_with(|| Arc::new(cause)).clone();
        if !planted!("poison-forgotten") {
            self.is_set.store(true, Release);
        }
        Error::Poisoned {
            durable: Lsn(self.durable.load(Acquire)),
            cause,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Acquire)
    }

    /// Returns the error if the log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_set() {
            return Ok(());
        }
        let slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(cause) => Err(Error::Poisoned {
                durable: Lsn(self.durable.load(Acquire)),
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }
}
