//! Calling the wakers of tasks.
//!
//! The calling thread may be in the middle of work that others wait for: a write before its barrier, a
//! truncation, the preparation of a segment. A waker must therefore not wait, and calls that may wait are
//! refused within it.

use crate::error::{Error, Result};
use logforce_device::sync::thread_local;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

thread_local! {
    /// Mark of a thread that is calling a waker.
    static IS_WAKING: Cell<bool> = const { Cell::new(false) };
}

/// Wakes a task. Catches a panic of its executor, which would otherwise keep the other tasks asleep. The
/// caller must hold no lock.
pub fn wake(waker: Waker) {
    let before = IS_WAKING.with(|waking| waking.replace(true));
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    IS_WAKING.with(|waking| waking.set(before));
}

/// Returns true if the thread is calling a waker.
pub fn is_waking() -> bool {
    IS_WAKING.with(Cell::get)
}

/// Fails in a call of a waker. Calls that may wait use it.
pub fn refuse_in_waker() -> Result<()> {
    match is_waking() {
        true => Err(Error::InWaker),
        false => Ok(()),
    }
}
