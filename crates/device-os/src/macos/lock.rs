//! `flock`, which belongs to the open file.

use super::error::at;
use crate::lock::is_ours;
use crate::unix::lock::{find, make};
use logforce_device::FileIdentity;
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Attempts to take the lock. A process that only asks whether the lock is held holds it shared for a moment.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(3);

/// Lock file, locked.
pub type Held = OwnedFd;

/// Locks the file `name` of `dir`; `None` if another process has locked it.
pub fn take(
    dir: BorrowedFd<'_>,
    name: &str,
    mode: Option<Mode>,
    path: &Path,
) -> io::Result<Option<Held>> {
    let file = make(dir, name, mode, path)?;
    for attempt in 1.. {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if attempt >= ATTEMPTS => return Ok(None),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(e) => return Err(at(e, "lock", path)),
        }
    }
    Ok(Some(file))
}

/// Opens the file `name` and locks nothing: `flock` covers the whole file, and on a network filesystem (SMB)
/// that could keep other processes from reading it.
pub fn take_file(file: OwnedFd, _: &Path) -> io::Result<Option<Held>> {
    Ok(Some(file))
}

pub fn unlock(held: &Held) {
    let _ = flock(held, FlockOperation::Unlock);
}

/// Returns true if any process holds the lock `name` of the directory `identity`, open as `dir`. Creates nothing.
pub fn is_taken(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<bool> {
    let Some(file) = find(dir, name, path)? else {
        return Ok(false);
    };
    if is_ours(identity, name) {
        return Ok(true);
    }
    // The lock is released when the descriptor is closed.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(e) => Err(at(e, "ask for the lock on", path)),
    }
}
