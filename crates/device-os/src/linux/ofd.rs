//! Open-file-description locks, which rustix does not offer.
//!
//! Unlike the classic POSIX locks they belong to the open file, not to the process: closing some
//! other descriptor of the same file does not drop them.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Offset at which a lock of the whole file begins.
pub const WHOLE: libc::off_t = 0;

/// Offset of a lock that covers no byte of any file. On some network filesystems (SMB) other processes cannot
/// read or write locked bytes.
pub const BEYOND: libc::off_t = libc::off_t::MAX / 2 + 1;

/// Takes the write lock from `from` on without waiting; `WouldBlock` if another open file description
/// holds a lock there.
pub fn try_lock(file: BorrowedFd<'_>, from: libc::off_t) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, libc::F_WRLCK, from)
        .map(drop)
        .map_err(|e| {
            // POSIX permits EACCES for a lock that is taken.
            if e.raw_os_error() == Some(libc::EACCES) {
                io::ErrorKind::WouldBlock.into()
            } else {
                e
            }
        })
}

/// Drops the lock of this open file description, even if a forked child has a copy of it.
pub fn unlock(file: BorrowedFd<'_>) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, libc::F_UNLCK, WHOLE).map(drop)
}

/// Returns true if another open file description holds a lock anywhere in the file.
pub fn is_locked(file: BorrowedFd<'_>) -> io::Result<bool> {
    call(file, libc::F_OFD_GETLK, libc::F_WRLCK, WHOLE).map(|found| found != libc::F_UNLCK)
}

fn call(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    kind: libc::c_int,
    from: libc::off_t,
) -> io::Result<libc::c_int> {
    // The lock reaches to the end of the file, however long it is. `l_pid` must be 0 for these commands.
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: from,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        // SAFETY: `file` is an open descriptor for as long as it is borrowed; the commands read
        // and write one `struct flock` at the pointer, which is a live local of that type.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) };
        if result >= 0 {
            return Ok(libc::c_int::from(lock.l_type));
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
