//! Durability of names.

use super::calls::is_refusal;
use super::error::uninterrupted;
use crate::unix::open_directory::OpenDirectory;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

pub use crate::unix::directory::{OsDirectory, make};

/// Makes the changes of a directory durable. On a filesystem without `F_FULLFSYNC` it calls `fsync`, and the
/// facts state its weaker guarantee.
pub fn sync(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match uninterrupted(|| rustix::fs::fcntl_fullfsync(dir)) {
        Err(e) if is_refusal(e) => uninterrupted(|| rustix::fs::fsync(dir)),
        other => other,
    }
}

/// Makes the entry of `dir` itself durable.
pub fn sync_parent(dir: &OpenDirectory) -> rustix::io::Result<()> {
    match dir.parent().and_then(|parent| sync(parent.as_fd())) {
        // A parent that may be passed but not read (a sandbox's, for example) cannot be opened. Flushing the
        // directory flushes the device, and with it the journal that has the directory's own entry.
        Err(Errno::ACCESS | Errno::PERM) => sync(dir.fd()?.as_fd()),
        // A directory that cannot be written to has no changes that a crash could undo.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        Err(e) => Err(e),
    }
}
