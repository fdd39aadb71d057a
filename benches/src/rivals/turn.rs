//! Taking turns.

use anyhow::{Result, anyhow};
use std::sync::{Mutex, MutexGuard};

/// Locks; a thread that died in its turn has left it in no known state.
pub fn take<T>(turn: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    turn.lock()
        .map_err(|_| anyhow!("another thread failed in the middle of a commit"))
}
