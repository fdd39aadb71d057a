//! Single reads and writes of a file: each is waited for, and forced by nobody.

use crate::error::{Error, Result};
use logforce_device::failure::is_of_medium;
use logforce_device::{AlignedBuf, File, ReadSource, Write};
use logforce_format::{NextBatch, planted};
use std::io;
use std::ops::Range;
use std::path::Path;

/// How often a read is tried that fails with an error of the medium: some drives report an error
/// and succeed the next time, and then nothing is lost.
const READ_ATTEMPTS: usize = 3;

/// Something that the medium has lost: evidence of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The class in the decision table.
    pub(crate) seen: NextBatch,
    /// In words, with the system's error.
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

/// The result of a read, or what the medium has lost. The outer error is about this process, or not
/// known to be about the medium: it never counts as damage.
pub(crate) type ReadResult<T> = Result<std::result::Result<T, Lost>>;

/// Fills `buf` from `offset` on; returns how many bytes there were before the end of the file.
/// Tries once: another attempt may succeed.
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

/// As [`read_once`], but tries again after an error of the medium.
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

/// Which call failed: an error about the file's length proves nothing about its bytes.
enum Failed {
    Read(io::Error),
    Len(io::Error),
}

/// A short read is the end of the file only if the file's length says so: otherwise a short read in
/// the middle would end the log there and lose records.
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
    // Reads all of it again: past the cache, a read cannot continue at any offset.
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
