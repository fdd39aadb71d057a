//! Poisoning of a log: the first failure, with the durable LSN for its message.

use crate::error::{Error, Result};
use logforce_commit::sync::{poison, wakers};
use logforce_device::sync::AtomicU64;
use logforce_format::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// The first failed write or barrier. After it the log accepts no more records.
#[derive(Default)]
pub(crate) struct Poison {
    failure: poison::Poison<Error>,
    /// Durable LSN, for the error message.
    pub(crate) durable: AtomicU64,
}

impl Poison {
    /// Sets the cause, unless it is already set. Returns the error for the caller.
    pub(crate) fn set(&self, cause: Error) -> Error {
        match cause {
            Error::Poisoned { .. } => cause,
            cause => self.poisoned(self.failure.set(cause)),
        }
    }

    fn poisoned(&self, cause: Arc<Error>) -> Error {
        Error::Poisoned {
            durable: Lsn(self.durable.load(Acquire)),
            cause,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.failure.is_set()
    }

    /// Returns the error if the log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.cause() {
            Some(cause) => Err(self.poisoned(cause)),
            None => Ok(()),
        }
    }
}

/// Fails if the thread is calling a waker. Functions that may wait call this first.
pub fn refuse_in_waker() -> Result<()> {
    match wakers::is_waking() {
        true => Err(Error::InWaker),
        false => Ok(()),
    }
}
