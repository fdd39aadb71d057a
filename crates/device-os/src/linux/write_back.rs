//! `sync_file_range`, which `rustix` does not have.

#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Has the kernel begin to write what its cache holds of the range. It waits for none of that, so it
/// learns of no error, and the next sync of the file reports them all. Where the kernel does not know
/// the call nothing is lost but time.
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
