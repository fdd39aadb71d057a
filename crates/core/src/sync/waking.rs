//! Calling the wakers of tasks.
//!
//! The thread that does it may be in the middle of something that others wait for: a write whose barrier
//! is still to come, a truncation, the preparation of a segment. So what is called may not wait for
//! anything, and does not get the chance to.

use crate::error::{Error, Result};
use logforce_device::sync::thread_local;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

thread_local! {
    /// The thread is in a call of a waker.
    static IS_WAKING: Cell<bool> = const { Cell::new(false) };
}

/// Wakes a task. A panic of one executor must not keep the other tasks asleep. No lock may be held.
pub fn wake(waker: Waker) {
    let before = IS_WAKING.with(|waking| waking.replace(true));
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    IS_WAKING.with(|waking| waking.set(before));
}

/// Returns whether the thread is in a call of a waker.
pub fn is_waking() -> bool {
    IS_WAKING.with(Cell::get)
}

/// Refuses a call that may wait, in a call of a waker.
pub fn refuse_in_waker() -> Result<()> {
    match is_waking() {
        true => Err(Error::InWaker),
        false => Ok(()),
    }
}
