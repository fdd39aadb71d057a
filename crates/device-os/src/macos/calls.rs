//! Calls that rustix does not offer, or not in the form needed here.

#![allow(unsafe_code)]

use super::error::uninterrupted;
use crate::attributes::{self, UUID_ANSWER};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns true if the error means that the filesystem has no such call, rather than that the call failed.
pub fn is_refusal(e: Errno) -> bool {
    matches!(
        e,
        Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL
    )
}

/// Calls `F_BARRIERFSYNC`: earlier writes reach the medium before later ones. On a filesystem without that
/// call uses `F_FULLFSYNC`, which does that and more.
pub fn barrier(file: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open for as long as it is borrowed; the command takes no
        // argument.
        match answer(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_BARRIERFSYNC) }) {
            // Interrupted by a signal, which is not a failure: as an error it would poison a log.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if Errno::from_io_error(&e).is_some_and(is_refusal) => {
                return uninterrupted(|| rustix::fs::fcntl_fullfsync(file)).map_err(Into::into);
            }
            other => return other,
        }
    }
}

/// Calls `F_PREALLOCATE`: reserves `bytes` more behind the end of the file, whose size stays. (rustix also
/// sets the size, and truncates a file that is longer.)
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

/// Returns the UUID of the volume of an open file or directory, which the filesystem got when it was made.
/// `None` if it has none.
pub fn volume_uuid(file: BorrowedFd<'_>) -> Option<String> {
    let mut wanted = libc::attrlist {
        bitmapcount: libc::ATTR_BIT_MAP_COUNT,
        reserved: 0,
        commonattr: 0,
        volattr: libc::ATTR_VOL_INFO | libc::ATTR_VOL_UUID,
        dirattr: 0,
        fileattr: 0,
        forkattr: 0,
    };
    let mut bytes = [0; UUID_ANSWER];
    // SAFETY: the descriptor is open; the call reads one such structure, and writes no more bytes
    // than the length says that there are; both are live locals.
    let done = unsafe {
        libc::fgetattrlist(
            file.as_raw_fd(),
            (&raw mut wanted).cast(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            0,
        )
    };
    answer(done).ok()?;
    attributes::uuid(&bytes)
}

fn answer(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
