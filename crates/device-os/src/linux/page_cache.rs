//! `cachestat(2)`: the pages of a file that are in memory and not yet on the disk. `rustix` does not provide it.

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Number of the call on the architectures that number new calls alike, since Linux 5.1: all but alpha.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`. A length of zero means "to the end of the file".
#[repr(C)]
struct Asked {
    start: u64,
    length: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Answer {
    cached: u64,
    dirty: u64,
    in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns the number of pages in the range that were written to the file and not to its device, including those
/// under way.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EOPNOTSUPP` on hugetlbfs.
pub fn dirty_pages(file: BorrowedFd<'_>, range: Range<u64>) -> Result<u64, Errno> {
    let asked = Asked {
        start: range.start,
        length: range.end.saturating_sub(range.start),
    };
    let mut answer = Answer::default();
    // SAFETY: the kernel reads a `cachestat_range` and writes a `cachestat`, which the two structures are; both live
    // longer than the call, and the descriptor is open as long as it is borrowed.
    let status = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const asked,
            &raw mut answer,
            0,
        )
    };
    match status {
        0 => Ok(answer.dirty + answer.in_writeback),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn written_pages_are_dirty_until_they_are_synced() {
        const TMPFS: i64 = 0x0102_1994;
        let mut file = tempfile::tempfile().unwrap();
        let kind = rustix::fs::fstatfs(&file).unwrap().f_type;
        if dirty_pages(file.as_fd(), 0..u64::MAX) == Err(Errno::NOSYS) || kind as i64 == TMPFS {
            println!("SKIPPED: needs Linux 6.5 and a temporary directory on a disk");
            return;
        }
        file.write_all(&[1; 40_000]).unwrap();
        assert!(dirty_pages(file.as_fd(), 0..u64::MAX).unwrap() > 0);
        file.sync_all().unwrap();
        assert_eq!(dirty_pages(file.as_fd(), 0..u64::MAX), Ok(0));
    }
}
