//! File mapped into memory, to measure the cost of a commit whose pages the system writes back. The log and
//! the page file do not map files.

use crate::os::mapping::Mapping;
use std::io;
use std::ops::Range;
use std::path::Path;

/// File, mapped shared and for writing. Written data is in the system's cache at once, and durable after a
/// [`sync`](Self::sync) of its range.
///
/// No reference to the mapped bytes is given out, so other processes may write the file meanwhile. If a
/// process shortens the file, a signal ends this process at the next access. So use it only for private
/// files.
#[derive(Debug)]
pub struct MappedFile {
    mapping: Mapping,
}

impl MappedFile {
    /// Maps the first `len` bytes of the existing file at `path`, which must have them.
    ///
    /// # Errors
    /// `InvalidInput` for a length of 0, and for one that the file or the address space does not have.
    /// Otherwise the error of the system, with the path.
    pub fn open(path: &Path, len: u64) -> io::Result<MappedFile> {
        Ok(MappedFile {
            mapping: Mapping::open(path, mappable(len)?)?,
        })
    }

    /// Copies the bytes to `offset`.
    ///
    /// # Errors
    /// `InvalidInput` if the bytes do not fit into the mapped range.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        let end = offset.checked_add(len).ok_or_else(outside)?;
        let at = self.within(&(offset..end))?.start;
        self.mapping.write(at, bytes);
        Ok(())
    }

    /// Makes the ranges durable, and returns when they are. On Linux by one `msync` for each, which flushes
    /// the device's cache each time; on macOS by these and one `F_FULLFSYNC`; on Windows by one
    /// `FlushViewOfFile` for each and one `FlushFileBuffers`.
    ///
    /// # Errors
    /// `InvalidInput` for a range outside the mapped bytes; otherwise the error of the system.
    pub fn sync(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        for range in ranges {
            let within = self.within(range)?;
            self.mapping.write_back(within)?;
        }
        self.mapping.force()
    }

    fn within(&self, range: &Range<u64>) -> io::Result<Range<usize>> {
        let (start, end) = (mappable_end(range.start)?, mappable_end(range.end)?);
        if start > end || end > self.mapping.len() {
            return Err(outside());
        }
        Ok(start..end)
    }
}

fn mappable(len: u64) -> io::Result<usize> {
    match mappable_end(len)? {
        0 => Err(outside()),
        len => Ok(len),
    }
}

/// Returns the end if a mapping can be that long: at most `isize::MAX`.
fn mappable_end(end: u64) -> io::Result<usize> {
    isize::try_from(end)
        .ok()
        .and_then(|end| usize::try_from(end).ok())
        .ok_or_else(outside)
}

/// Makes the error of bytes that are not mapped.
pub(crate) fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "these bytes are not mapped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_in_the_file() {
        let temp = tempfile::TempDir::new().unwrap();
        let path = temp.path().join("mapped");
        std::fs::write(&path, vec![7; 40_000]).unwrap();
        let mut mapped = MappedFile::open(&path, 40_000).unwrap();
        mapped.write(0, b"first").unwrap();
        mapped.write(8190, b"over a page").unwrap();
        mapped.write(39_999, b"!").unwrap();
        mapped.sync(&[0..5, 8190..8201]).unwrap();
        mapped.sync(std::slice::from_ref(&(0..40_000))).unwrap();
        mapped.sync(&[]).unwrap();
        drop(mapped);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            (&bytes[..5], &bytes[8190..8201]),
            (&b"first"[..], &b"over a page"[..])
        );
        assert_eq!((bytes[5], bytes[39_998], bytes[39_999]), (7, 7, b'!'));
        assert_eq!(bytes.len(), 40_000);
    }

    #[test]
    fn what_is_not_mapped_is_refused() {
        let temp = tempfile::TempDir::new().unwrap();
        let path = temp.path().join("mapped");
        std::fs::write(&path, vec![7; 5000]).unwrap();
        for len in [0, 5001, u64::MAX] {
            let e = MappedFile::open(&path, len).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidInput, "{len}: {e}");
        }
        let mut mapped = MappedFile::open(&path, 4500).unwrap();
        for (offset, bytes) in [(4500, 1), (4000, 501), (u64::MAX, 1), (0, 4501)] {
            let e = mapped.write(offset, &vec![1; bytes]).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidInput);
        }
        let backwards = Range { start: 10, end: 5 };
        for range in [backwards, 0..4501, 4501..4502, u64::MAX..u64::MAX] {
            assert!(mapped.sync(&[range]).is_err());
        }
        mapped.write(4500, b"").unwrap();
        drop(mapped);
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 5000]);
        let missing = MappedFile::open(&temp.path().join("no"), 1).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("no"), "{missing}");
    }
}
