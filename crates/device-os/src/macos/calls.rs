//! The calls of `fcntl` that rustix does not offer, or not as they are needed here.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `F_BARRIERFSYNC`: what was written before reaches the medium before what is written after.
pub fn barrier(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed; the command takes no argument.
    answer(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_BARRIERFSYNC) })
}

/// `F_PREALLOCATE`: space for `bytes` more behind the end of the file, whose size stays as it is.
/// (rustix sets the size as well, and cuts a file by that which is longer.)
pub fn preallocate(file: BorrowedFd<'_>, bytes: i64) -> io::Result<()> {
    let mut store = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: bytes,
        fst_bytesalloc: 0,
    };
    // SAFETY: the descriptor is open; the command reads and writes one such structure at the
    // pointer, which is a live local.
    answer(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) })
}

fn answer(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
