//! A write by itself: submitted and waited for, and forced by nobody.

use logforce_device::{AlignedBuf, File, Write};
use std::io;
use std::ops::Range;

/// Writes all of `buf` at `offset`.
pub(crate) fn write(file: &dyn File, offset: u64, buf: AlignedBuf) -> io::Result<()> {
    let all = 0..buf.len();
    write_part(file, offset, buf, all).map(drop)
}

/// Writes `range` of `buf` at `offset`, and gives the buffer back.
pub(crate) fn write_part(
    file: &dyn File,
    offset: u64,
    buf: AlignedBuf,
    range: Range<usize>,
) -> io::Result<AlignedBuf> {
    let ticket = file.submit(Write {
        offset,
        buf,
        range,
        through: false,
    });
    let done = file.complete(ticket);
    done.result.map(|()| done.buf)
}
