//! A lock that waits through the runtime.

use logforce_device::sync::AtomicU32;
use logforce_device::{Runtime, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A lock that may be held across device calls.
///
/// It waits through the runtime's interface, so that a test's scheduler sees the wait. An ordinary mutex that
/// is held across a device call would block that scheduler forever.
pub struct RuntimeMutex {
    word: AtomicU32,
    runtime: Arc<dyn Runtime>,
}

/// Holder of a [`RuntimeMutex`], which it releases when it is dropped.
pub struct RuntimeMutexGuard<'a>(&'a RuntimeMutex);

impl RuntimeMutex {
    /// Returns a free lock that waits through `runtime`.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        RuntimeMutex {
            word: AtomicU32::new(FREE),
            runtime,
        }
    }

    /// Waits until the lock is free, and takes it.
    #[inline]
    pub fn lock(&self) -> RuntimeMutexGuard<'_> {
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            // A waiter leaves CONTENDED in the word, so that each release wakes the next waiter.
            let left = planted!("lock-uncontended", HELD, else CONTENDED);
            while self.word.swap(left, Acquire) != FREE {
                self.runtime.wait(&self.word, left, None);
            }
        }
        RuntimeMutexGuard(self)
    }
}

impl Drop for RuntimeMutexGuard<'_> {
    fn drop(&mut self) {
        let order = planted!("order-unlock", Relaxed, else Release);
        let before = self.0.word.swap(FREE, order);
        let has_waiters = planted!("wake-next-holder", false, else before == CONTENDED);
        if has_waiters {
            self.0.runtime.wake_one(&self.0.word);
        }
    }
}
