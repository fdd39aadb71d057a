//! Lock file of a directory.

use super::error::{at, of_making, uninterrupted};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

/// Opens the file `name` of `dir` to lock it, and makes it if necessary: with this mode, or for its owner
/// only.
pub fn make(
    dir: BorrowedFd<'_>,
    name: &str,
    mode: Option<Mode>,
    path: &Path,
) -> io::Result<OwnedFd> {
    let flags = FLAGS | OFlags::RDWR | OFlags::CREATE;
    let make = |flags| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
    let with_mode = |mode| {
        // The mode is set only for a file that this call makes. A user's later change of the mode stays.
        let file = match make(flags | OFlags::EXCL) {
            Err(Errno::EXIST) => return make(flags),
            made => made?,
        };
        rustix::fs::fchmod(&file, mode)?;
        Ok(file)
    };
    uninterrupted(|| mode.map_or_else(|| make(flags), with_mode))
        .map_err(|e| at(of_making(e, path), "open the lock file", path))
}

/// Opens the lock file to ask for the lock; `None` if it is missing, which means unlocked.
pub fn find(dir: BorrowedFd<'_>, name: &str, path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = FLAGS | OFlags::RDONLY;
    match uninterrupted(|| rustix::fs::openat(dir, name, flags, Mode::empty())) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(at(e, "open the lock file", path)),
    }
}
