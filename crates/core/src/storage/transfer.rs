//! Single reads and writes of a file. The caller waits for each of them, and nothing is forced.

use crate::error::{Error, Result};
use logforce_device::failure::is_of_medium;
use logforce_device::{AlignedBuf, File, ReadSource, Write};
use logforce_format::{NextBatch, planted};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Number of attempts of a read that fails with an error of the medium. Some drives report an error and
/// succeed the next time. Then no data is lost.
const READ_ATTEMPTS: usize = 3;

/// A loss of the medium, which is evidence of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Class in the decision table.
    pub(crate) seen: NextBatch,
    /// Description, with the system's error.
    pub(crate) found: String,
}

impl Lost {
    pub(crate) fn bytes(found: impl Into<String>) -> Lost {
        Lost {
            seen: NextBatch::Unreadable,
            found: found.into(),
        }
    }

    pub(crate) fn file(found: impl Into<String>) -> Lost {
        Lost {
            seen: NextBatch::NoSegment,
            found: found.into(),
        }
    }
}

/// Result of a read, or the loss of the medium. The outer error is one of this process, or is not known to be
/// one of the medium. It never counts as damage.
pub(crate) type ReadResult<T> = Result<std::result::Result<T, Lost>>;

/// Fills `buf` from `offset` on. Returns the number of bytes before the end of the file. Tries only once;
/// another attempt may succeed.
pub(crate) fn read_once(
    file: &dyn File,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> ReadResult<usize> {
    match fill(file, offset, buf, source) {
        Ok(n) => Ok(Ok(n)),
        Err(Failed::Read(e)) => {
            let is_damage = planted!("any-error-is-damage", true, else is_of_medium(&e));
            match is_damage {
                true => Ok(Err(Lost::bytes(format!("read error: {e}")))),
                false => Err(Error::io("read", path)(e)),
            }
        }
        Err(Failed::Len(e)) => Err(Error::io("check the size of", path)(e)),
    }
}

/// Reads as [`read_once`] does, but tries again after an error of the medium.
pub(crate) fn read(
    file: &dyn File,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> ReadResult<usize> {
    let max_attempts = planted!("one-look-at-the-medium", 1, else READ_ATTEMPTS);
    let mut attempts = 1;
    loop {
        match read_once(file, path, offset, buf, source)? {
            Err(_) if attempts < max_attempts => attempts += 1,
            answer => return Ok(answer),
        }
    }
}

/// Failed call. An error about the file's length proves nothing about its bytes.
enum Failed {
    Read(io::Error),
    Len(io::Error),
}

/// Reads once. A short read counts as the end of the file only if the file's length confirms it. Otherwise a
/// short read in the middle would end the log there and lose records.
fn fill(
    file: &dyn File,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> std::result::Result<usize, Failed> {
    let n = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let is_complete = planted!("short-read-is-the-end", true, else n == buf.len());
    if is_complete {
        return Ok(n);
    }
    let (end, len) = (offset + n as u64, file.len().map_err(Failed::Len)?);
    if end >= len {
        return Ok(n);
    }
    // Reads everything again, because a read past the cache cannot continue at any offset.
    let again = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let end = offset + again as u64;
    if again < buf.len() && end < len {
        let text = format!("the read at {offset} ended at {end}, the file has {len} bytes");
        let text = io::Error::new(io::ErrorKind::UnexpectedEof, text);
        return Err(Failed::Read(text));
    }
    Ok(again)
}

/// Writes all of `buf` at `offset`.
pub(crate) fn write(file: &dyn File, offset: u64, buf: AlignedBuf) -> io::Result<()> {
    let all = 0..buf.len();
    write_part(file, offset, buf, all).map(drop)
}

/// Writes `range` of `buf` at `offset`, and returns the buffer.
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
