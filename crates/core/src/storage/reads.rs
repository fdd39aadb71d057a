//! Reading bytes that must be there, and telling what the medium lost from what this process could
//! not get.

use crate::error::{Error, Result};
use logforce_device::failure::is_of_medium;
use logforce_device::{File, ReadSource};
use logforce_format::{Seen, planted};
use std::io;
use std::path::Path;

/// How often bytes are asked for that the medium does not give: some drives answer an error and
/// read well the next moment, and what a second look reads is not lost.
const LOOKS: usize = 3;

/// Something that the medium does not give back: evidence of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    /// How the decision table calls it.
    pub(crate) seen: Seen,
    /// In words, with the system's error.
    pub(crate) found: String,
}

impl Lost {
    pub(crate) fn bytes(found: impl Into<String>) -> Lost {
        Lost {
            seen: Seen::Unreadable,
            found: found.into(),
        }
    }

    pub(crate) fn file(found: impl Into<String>) -> Lost {
        Lost {
            seen: Seen::NoSegment,
            found: found.into(),
        }
    }
}

/// What was asked for, or that the medium has lost it. The outer error is about this process, or
/// not known to be about the medium: it is never taken for damage.
pub(crate) type Had<T> = Result<std::result::Result<T, Lost>>;

/// Fills `buf` from `offset` on; answers how many bytes there were before the end of the file. One
/// look: what the medium does not give now it may give in the next moment.
pub(crate) fn read_once(
    file: &dyn File,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> Had<usize> {
    match fill(file, offset, buf, source) {
        Ok(n) => Ok(Ok(n)),
        Err(Failed::Read(e)) if is_of_medium(&e) || planted!("any-error-is-damage") => {
            Ok(Err(Lost::bytes(format!("read error: {e}"))))
        }
        Err(Failed::Read(e)) => Err(Error::io("read", path)(e)),
        Err(Failed::Len(e)) => Err(Error::io("look at", path)(e)),
    }
}

/// As [`read_once`], with more looks where the medium answers an error.
pub(crate) fn read(
    file: &dyn File,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> Had<usize> {
    let mut looked = 1;
    loop {
        match read_once(file, path, offset, buf, source)? {
            Err(_) if looked < LOOKS && !planted!("one-look-at-the-medium") => looked += 1,
            answer => return Ok(answer),
        }
    }
}

/// Which call failed: what a file's length is cannot be the medium's word about its bytes.
enum Failed {
    Read(io::Error),
    Len(io::Error),
}

/// Fewer bytes than asked for are the end of the file only if the file says that it ends there: a
/// read that answers nothing in the middle of it would else turn into a shorter log.
fn fill(
    file: &dyn File,
    offset: u64,
    buf: &mut [u8],
    source: ReadSource,
) -> std::result::Result<usize, Failed> {
    let n = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    if n == buf.len() || planted!("short-read-is-the-end") {
        return Ok(n);
    }
    let (end, len) = (offset + n as u64, file.len().map_err(Failed::Len)?);
    if end >= len {
        return Ok(n);
    }
    // Once more, all of it: past the cache a read cannot go on at any place.
    let again = file.read_at(offset, buf, source).map_err(Failed::Read)?;
    let end = offset + again as u64;
    if again < buf.len() && end < len {
        let text = format!("the read at {offset} ended at {end}, the file has {len} bytes");
        let text = io::Error::new(io::ErrorKind::UnexpectedEof, text);
        return Err(Failed::Read(text));
    }
    Ok(again)
}
