//! What makes names durable.

use super::error::uninterrupted;
use super::facts;
use crate::unix::open_directory::OpenDirectory;
use crate::unix::path_identity::identity_of;
use logforce_device::DirectAlignment;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

pub use crate::unix::directory::{OsDirectory, make};

impl OpenDirectory {
    /// The alignment of direct I/O where the kernel does not tell it. Found out once.
    pub fn assumed_alignment(&self) -> io::Result<Option<DirectAlignment>> {
        if let Some(known) = self.assumed.get() {
            return Ok(*known);
        }
        // What could not be found out is not kept.
        let found = facts::assumed_alignment(self.fd()?.as_fd(), &self.path)?;
        Ok(*self.assumed.get_or_init(|| found))
    }
}

/// Makes what was done in a directory durable.
pub fn sync(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    uninterrupted(|| rustix::fs::fsync(dir))?;
    journal_is_alive(dir)
}

/// Makes the entry of `dir` itself durable.
pub fn sync_parent(dir: &OpenDirectory) -> rustix::io::Result<()> {
    let parent = match uninterrupted(|| dir.parent()) {
        // A parent that may be passed but not read cannot be opened, nor synced alone.
        Err(Errno::ACCESS) => return uninterrupted(|| rustix::fs::syncfs(&*dir.fd()?)),
        opened => opened?,
    };
    match uninterrupted(|| rustix::fs::fsync(&parent)) {
        // Nothing that a crash could undo is in a directory that cannot be written to.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        // Above a mount point is another filesystem, which may know no such sync (`/dev`):
        // the entry is not what the mount hangs on after a restart.
        Err(e) => match uninterrupted(|| rustix::fs::fstat(&parent)) {
            Ok(above) if identity_of(&above).volume != dir.identity.volume => Ok(()),
            _ => Err(e),
        },
    }
}

/// Asks ext4 whether its journal still works, by a change that has to begin a transaction.
///
/// An fsync there waits for the transaction that holds the change, and answers success where that
/// is no longer under way (`jbd2_complete_transaction`): also if it *failed*, in another thread's
/// fsync or the kernel's own. The journal is aborted before a failed transaction is dropped, so one
/// that still begins transactions has lost none. Without this a name that was never written would
/// count as durable, and a cut would take a segment with what was acknowledged in it: seen in real
/// power cuts after one failed write.
fn journal_is_alive(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    const EXT4: i64 = 0xEF53;
    if uninterrupted(|| rustix::fs::fstatfs(fd))?.f_type as i64 != EXT4 {
        return Ok(());
    }
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: now,
    };
    match uninterrupted(|| rustix::fs::futimens(fd, &times)) {
        // Who may not do this changes no names here either.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        done => done,
    }
}
