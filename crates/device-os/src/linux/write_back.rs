//! `sync_file_range`, which `rustix` does not provide.

#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Tells the kernel to start writing its cached data of the range. The call does not wait, so it learns of no
/// error, and the next sync of the file still reports them all. On a kernel without the call only time is
/// lost.
pub fn begin(file: BorrowedFd<'_>, range: Range<u64>) {
    let len = range.end.saturating_sub(range.start);
    // A length of zero would mean "to the end of the file".
    let (Ok(offset), Ok(len @ 1..)) = (range.start.try_into(), len.try_into()) else {
        return;
    };
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the call takes numbers alone, and the descriptor is open as long as it is borrowed.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) };
}
