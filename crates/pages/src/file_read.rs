//! Reading bytes that must exist, and telling what the medium has lost from errors of this process.

use crate::error::{Error, Result as PageResult};
use logforce_device::failure::is_of_medium;
use logforce_device::{File, ReadSource};
use logforce_format::planted;
use std::io;
use std::ops::Range;

/// How often a read is tried that fails with an error of the medium, or whose bytes are not what was
/// written: what a drive or a transfer got wrong once is no damage.
const ATTEMPTS: usize = 3;

/// How often to look before something counts as damage.
pub(crate) fn attempts() -> usize {
    planted!("page-one-look", 1, else ATTEMPTS)
}

/// What a read gave.
pub(crate) enum ReadResult {
    /// So many bytes: all, or those before the end of the file.
    Bytes(usize),
    /// The medium does not give them.
    Lost(io::Error),
}

/// Looks at a range of the file, again if that shows damage. What the system's cache holds of it is
/// dropped before each further look.
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

/// Fills all of `buf` from `offset` on, in one attempt; why not, in words, where the file or the medium
/// does not give it. An error is about this process.
pub(crate) fn read_all(
    file: &dyn File,
    offset: u64,
    buf: &mut [u8],
) -> io::Result<Result<(), String>> {
    Ok(match read(file, offset, buf, ReadSource::Cache)? {
        ReadResult::Bytes(read) if read == buf.len() => Ok(()),
        ReadResult::Bytes(read) => Err(format!("the file ends at byte {}", offset + read as u64)),
        ReadResult::Lost(e) => Err(format!("the medium does not give it back ({e})")),
    })
}

/// Fills `buf` from `offset` on, in one attempt. An error is about this process, and never counts as
/// damage.
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

/// Which call failed: an error about the file's length proves nothing about its bytes.
enum Failed {
    Read(io::Error),
    Len(io::Error),
}

/// A short read is the end of the file only if the file's length says so: in the middle it would turn
/// pages into zeroes.
fn fill(file: &dyn File, offset: u64, buf: &mut [u8], source: ReadSource) -> Result<usize, Failed> {
    let read = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let is_complete = planted!("page-short-read-is-the-end", true, else read == buf.len());
    if is_complete || offset + read as u64 >= file.len().map_err(Failed::Len)? {
        return Ok(read);
    }
    // All of it again: past the cache, a read cannot go on at any offset.
    let again = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let (end, len) = (offset + again as u64, file.len().map_err(Failed::Len)?);
    if again < buf.len() && end < len {
        let text = format!("the read at {offset} ended at {end}, the file has {len} bytes");
        let text = io::Error::new(io::ErrorKind::UnexpectedEof, text);
        return Err(Failed::Read(text));
    }
    Ok(again)
}
