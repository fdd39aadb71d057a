//! Reads of bytes that must exist. They distinguish losses of the medium from errors of this process.

use crate::error::{Error, Result as PageResult};
use logforce_device::failure::is_of_medium;
use logforce_device::{File, ReadSource};
use logforce_format::planted;
use std::io;
use std::ops::Range;

/// Maximum number of attempts to read bytes after an error of the medium or a wrong checksum. A single
/// mistake of a drive or a transfer is not damage.
const ATTEMPTS: usize = 3;

/// Returns the number of attempts after which something counts as damage.
pub(crate) fn attempts() -> usize {
    planted!("page-one-look", 1, else ATTEMPTS)
}

/// Result of a read.
pub(crate) enum ReadResult {
    /// Number of bytes that were read: all, or those before the end of the file.
    Bytes(usize),
    /// The medium does not return the bytes.
    Lost(io::Error),
}

/// Calls `look` for a range of the file, and again while it finds damage. Drops the range from the system's
/// cache before each further call.
pub(crate) fn read_with_retries<T>(
    file: &dyn File,
    range: Range<u64>,
    mut look: impl FnMut() -> PageResult<T>,
) -> PageResult<T> {
    let mut result = look();
    for _ in 1..attempts() {
        if !matches!(result, Err(Error::Damaged { .. })) {
            break;
        }
        file.drop_cache(range.clone());
        result = look();
    }
    result
}

/// Fills all of `buf` from `offset` on, in one attempt. Returns the reason in words if the file or the medium
/// does not give the bytes. An error concerns this process.
pub(crate) fn read_all(
    file: &dyn File,
    offset: u64,
    buf: &mut [u8],
) -> io::Result<Result<(), String>> {
    Ok(match read(file, offset, buf, ReadSource::Cache)? {
        ReadResult::Bytes(read) if read == buf.len() => Ok(()),
        ReadResult::Bytes(read) => Err(format!("the file ends at byte {}", offset + read as u64)),
        ReadResult::Lost(e) => Err(format!("the device cannot read it ({e})")),
    })
}

/// Fills `buf` from `offset` on, in one attempt. An error concerns this process and never counts as damage.
pub(crate) fn read(
    file: &dyn File,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> io::Result<ReadResult> {
    match fill(file, offset, buf, source) {
        Ok(read) => Ok(ReadResult::Bytes(read)),
        Err(Failed::Read(e)) if is_of_medium(&e) => Ok(ReadResult::Lost(e)),
        Err(Failed::Read(e) | Failed::Len(e)) => Err(e),
    }
}

/// Failed call. An error about the file's length proves nothing about its bytes.
enum Failed {
    Read(io::Error),
    Len(io::Error),
}

/// Fills `buf` from `offset` on. A short read counts as the end of the file only if the file's length
/// confirms it. Otherwise a short read in the middle would turn pages into zeroes.
fn fill(file: &dyn File, offset: u64, buf: &mut [u8], source: ReadSource) -> Result<usize, Failed> {
    let read = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let is_complete = planted!("page-short-read-is-the-end", true, else read == buf.len());
    if is_complete || offset + read as u64 >= file.len().map_err(Failed::Len)? {
        return Ok(read);
    }
    // Reads all of it again, because a read past the cache cannot continue at an arbitrary offset.
    let again = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let (end, len) = (offset + again as u64, file.len().map_err(Failed::Len)?);
    if again < buf.len() && end < len {
        let text =
            format!("the read at byte {offset} ended at byte {end}, but the file has {len} bytes");
        let text = io::Error::new(io::ErrorKind::UnexpectedEof, text);
        return Err(Failed::Read(text));
    }
    Ok(again)
}
