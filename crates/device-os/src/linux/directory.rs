//! Durability of names.

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
    /// Returns the assumed alignment of direct I/O, for files whose alignment the kernel does not report.
    /// Determined once.
    pub fn assumed_alignment(&self) -> io::Result<Option<DirectAlignment>> {
        if let Some(known) = self.assumed.get() {
            return Ok(*known);
        }
        // After an error the next call tries again.
        let found = facts::assumed_alignment(self.fd()?.as_fd(), &self.path)?;
        Ok(*self.assumed.get_or_init(|| found))
    }
}

/// Makes the changes of a directory durable.
pub fn sync(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    uninterrupted(|| rustix::fs::fsync(dir))?;
    journal_is_alive(dir)
}

/// Makes the entry of `dir` itself durable.
pub fn sync_parent(dir: &OpenDirectory) -> rustix::io::Result<()> {
    let parent = match uninterrupted(|| dir.parent()) {
        // A parent that may be passed but not read cannot be opened, and so not synced alone.
        Err(Errno::ACCESS) => return uninterrupted(|| rustix::fs::syncfs(&*dir.fd()?)),
        opened => opened?,
    };
    match uninterrupted(|| rustix::fs::fsync(&parent)) {
        // A directory that cannot be written to has no changes that a crash could undo.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        // The parent of a mount point is on another filesystem, which may not support such a sync (`/dev`).
        // The mount does not depend on that entry after a restart.
        Err(e) => match uninterrupted(|| rustix::fs::fstat(&parent)) {
            Ok(above) if identity_of(&above).volume != dir.identity.volume => Ok(()),
            _ => Err(e),
        },
    }
}

/// Checks that the journal of ext4 still works, by a change that has to begin a transaction.
///
/// An `fsync` there waits for the transaction that holds the change. It reports success if that is no longer
/// under way (`jbd2_complete_transaction`), also if the transaction *failed*, in another thread's fsync or
/// the kernel's own. The kernel aborts the journal before it drops a failed transaction. So a journal that
/// still begins transactions has lost none. Without this check a name that was never written would count as
/// durable. A power cut would then remove a segment with acknowledged records. This was seen in real power
/// cuts after one failed write.
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
        // A process without this right changes no names here either.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        done => done,
    }
}
