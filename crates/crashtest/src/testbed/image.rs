use rustix::fs::{MemfdFlags, SeekFrom};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Maximum number of bytes that are copied at a time.
const PIECE: usize = 1 << 20;
/// Bytes that are checked for zeros together. A copy has a hole instead of a part of zeros.
const PART: usize = 32 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Contents of a disk, in memory that is freed with the last process that holds it. The kernel under test never writes
/// it back.
#[derive(Debug)]
pub struct Image {
    file: File,
    len: u64,
}

impl Image {
    /// Creates an image of `len` zero bytes, which use no memory before they are written.
    ///
    /// # Errors
    /// If the kernel refuses to create a memory file.
    pub fn new(len: u64) -> io::Result<Image> {
        let name = super::enclosure::name();
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
        let file = File::from(fd);
        file.set_len(len)?;
        Ok(Image { file, len })
    }

    /// Returns another owner of the same memory.
    ///
    /// # Errors
    /// If the file descriptor cannot be duplicated.
    pub fn try_clone(&self) -> io::Result<Image> {
        Ok(Image {
            file: self.file.try_clone()?,
            len: self.len,
        })
    }

    /// Returns the file with the bytes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the length in bytes with which the image was created.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the image was created with a length of 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a path by which any process of this user can open the image while this process keeps it open.
    pub fn path(&self) -> PathBuf {
        let (process, fd) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{fd}"))
    }

    /// Resets all bytes to zero and frees their memory.
    ///
    /// # Errors
    /// If the length of the memory file cannot be set.
    pub fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(self.len)
    }

    /// Copies the bytes of `other`, which must have the same length. Holes of `other` use no memory here.
    ///
    /// # Errors
    /// If a memory file cannot be read or written, most likely because there is not enough memory.
    pub fn copy_from(&self, other: &Image) -> io::Result<()> {
        self.clear()?;
        let mut at = 0;
        while let Some((start, end)) = other.data_from(at)? {
            self.copy_range(other, start, end)?;
            at = end;
        }
        Ok(())
    }

    /// Writes the contents to a file, with holes where the image has them.
    ///
    /// # Errors
    /// I/O errors of the file.
    pub fn write_sparse(&self, to: &File) -> io::Result<()> {
        to.set_len(self.len)?;
        let (mut at, mut buffer) = (0, vec![0; PIECE]);
        while let Some((start, end)) = self.data_from(at)? {
            at = start;
            while at < end {
                let len = (end - at).min(PIECE as u64) as usize;
                self.file.read_exact_at(&mut buffer[..len], at)?;
                to.write_all_at(&buffer[..len], at)?;
                at += len as u64;
            }
        }
        Ok(())
    }

    /// Returns start and end of the next range of data, at or after `at`; `None` if only a hole follows.
    fn data_from(&self, at: u64) -> io::Result<Option<(u64, u64)>> {
        if at >= self.len {
            return Ok(None);
        }
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole follows.
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?;
        Ok(Some((start, end.min(self.len))))
    }

    fn copy_range(&self, other: &Image, start: u64, end: u64) -> io::Result<()> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut at = start;
            while at < end {
                let len = (end - at).min(PIECE as u64) as usize;
                other.file.read_exact_at(&mut buffer[..len], at)?;
                // Written zeros, such as a new journal, become holes. Holes read the same, and later copies skip them.
                for (i, part) in buffer[..len].chunks(PART).enumerate() {
                    if part.iter().any(|b| *b != 0) {
                        self.file.write_all_at(part, at + (i * PART) as u64)?;
                    }
                }
                at += len as u64;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_and_what_was_there_is_gone() {
        let (a, b) = (Image::new(10 << 20).unwrap(), Image::new(10 << 20).unwrap());
        a.file().write_all_at(b"here", 5 << 20).unwrap();
        b.file().write_all_at(b"there", 1 << 20).unwrap();
        b.copy_from(&a).unwrap();
        let mut all = vec![0; 10 << 20];
        b.file().read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all[5 << 20..(5 << 20) + 4], b"here");
        assert_eq!(all.iter().filter(|b| **b != 0).count(), 4);
    }
}
