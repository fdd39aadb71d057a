//! Poisoning: after a failed write or barrier nothing more is accepted until the log or file is opened again.
//! The contents of the system's cache are then unknown, and a repeated fsync may report success for bytes
//! that the system has dropped.

use logforce_device::planted;
use logforce_device::sync::{AtomicBool, Mutex};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// The first failed write or barrier, as an error of type `E`.
pub struct Poison<E> {
    is_set: AtomicBool,
    cause: Mutex<Option<Arc<E>>>,
}

impl<E> Default for Poison<E> {
    fn default() -> Self {
        Poison {
            is_set: AtomicBool::new(false),
            cause: Mutex::new(None),
        }
    }
}

impl<E> Poison<E> {
    /// Sets the cause, unless it is already set. Returns the first cause.
    pub fn set(&self, cause: E) -> Arc<E> {
        if planted!("order-poison") {
            self.is_set.store(true, Release);
        }
        let mut slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = slot.get_or_insert_with(|| Arc::new(cause)).clone();
        if !planted!("poison-forgotten") {
            self.is_set.store(true, Release);
        }
        cause
    }

    /// Returns true if there was a failure. Takes no lock.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Acquire)
    }

    /// Returns the first cause, if there was a failure.
    #[inline]
    pub fn cause(&self) -> Option<Arc<E>> {
        if !self.is_set() {
            return None;
        }
        let slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        slot.clone()
    }
}
