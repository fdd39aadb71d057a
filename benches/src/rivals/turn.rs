//! Lock by which threads take turns.

use anyhow::{Result, anyhow};
use std::sync::{Mutex, MutexGuard};

/// Takes the lock. Fails if a thread panicked while it held the lock, because the protected state is
/// then undefined.
pub fn take<T>(turn: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    turn.lock()
        .map_err(|_| anyhow!("another thread failed in the middle of a commit"))
}
