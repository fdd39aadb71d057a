//! What makes names durable.

use super::calls::is_refusal;
use super::error::uninterrupted;
use crate::unix::open_directory::OpenDirectory;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

pub use crate::unix::directory::{OsDirectory, make};

/// Makes what was done in a directory durable. Where the filesystem has no `F_FULLFSYNC`, as far as
/// `fsync` goes: the facts say what that is worth.
pub fn sync(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match uninterrupted(|| rustix::fs::fcntl_fullfsync(dir)) {
        Err(e) if is_refusal(e) => uninterrupted(|| rustix::fs::fsync(dir)),
        other => other,
    }
}

/// Makes the entry of `dir` itself durable.
pub fn sync_parent(dir: &OpenDirectory) -> rustix::io::Result<()> {
    match dir.parent().and_then(|parent| sync(parent.as_fd())) {
        // A parent that may be passed but not read (a sandbox's, say) cannot be opened. To flush
        // the directory is to flush the device, and the journal in which its own entry is.
        Err(Errno::ACCESS | Errno::PERM) => sync(dir.fd()?.as_fd()),
        // Nothing that a crash could undo is in a directory that cannot be written to.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        Err(e) => Err(e),
    }
}
