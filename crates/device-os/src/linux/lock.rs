//! Lock of an open file description.

use super::error::{at, uninterrupted};
use super::ofd;
use crate::lock::is_ours;
use crate::unix::lock::{find, make};
use logforce_device::FileIdentity;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Lock file, locked.
pub type Held = OwnedFd;

/// Locks the file `name` of `dir`; `None` if another process has locked it.
pub fn take(
    dir: BorrowedFd<'_>,
    name: &str,
    mode: Option<Mode>,
    path: &Path,
) -> io::Result<Option<Held>> {
    try_lock(make(dir, name, mode, path)?, ofd::WHOLE, path)
}

/// Locks a file that holds data; `None` if another opening has locked it.
pub fn take_file(file: OwnedFd, path: &Path) -> io::Result<Option<Held>> {
    try_lock(file, ofd::BEYOND, path)
}

fn try_lock(file: OwnedFd, from: libc::off_t, path: &Path) -> io::Result<Option<Held>> {
    match ofd::try_lock(file.as_fd(), from) {
        Ok(()) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(at(e, "lock", path)),
    }
}

pub fn unlock(held: &Held) {
    let _ = ofd::unlock(held.as_fd());
}

/// Returns true if any process holds the lock `name` of the directory `identity`, open as `dir`. Creates nothing.
pub fn is_taken(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<bool> {
    if is_ours(identity, name) {
        // This process holds the lock, if the lock file is still there. A missing file is not locked.
        let look = || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        return match uninterrupted(look) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(at(e, "look at the lock file", path)),
        };
    }
    match find(dir, name, path)? {
        Some(file) => ofd::is_locked(file.as_fd()).map_err(|e| at(e, "ask for the lock on", path)),
        None => Ok(false),
    }
}
