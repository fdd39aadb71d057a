#![allow(unsafe_code)]

use super::error::{at, uninterrupted};
use crate::mapped::outside;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Mapped bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    path: PathBuf,
    #[cfg_attr(not(target_os = "macos"), allow(dead_code))]
    file: OwnedFd,
    start: NonNull<c_void>,
    len: usize,
    /// Page size: `msync` takes addresses of whole pages.
    page: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use and unmap it.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn open(path: &Path, len: usize) -> io::Result<Mapping> {
        let fail = |e: rustix::io::Errno| at(e, "map", path);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = uninterrupted(|| rustix::fs::open(path, flags, Mode::empty())).map_err(fail)?;
        let size = rustix::fs::fstat(&file).map_err(fail)?.st_size;
        if u64::try_from(size).unwrap_or(0) < len as u64 {
            return Err(at(outside(), "map", path));
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the system chooses: it replaces none.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, &file, 0) };
        let start = start.map_err(fail)?;
        let start = NonNull::new(start).ok_or_else(|| at(outside(), "map", path))?;
        Ok(Mapping {
            path: path.to_owned(),
            file,
            start,
            len,
            page: rustix::param::page_size(),
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// # Panics
    /// If the bytes do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset);
        // SAFETY: the target lies within the mapping (asserted), which lives as long as this value and
        // is not written by other code in this process: `&mut self`. No reference to it exists, so the
        // bytes cannot overlap it, and others may change the file meanwhile.
        unsafe {
            let target = self.start.cast::<u8>().add(offset);
            target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Writes a range back to the device, as far as `msync` does.
    ///
    /// # Panics
    /// If the range is outside the mapping.
    pub fn write_back(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len);
        let start = range.start / self.page * self.page;
        if range.is_empty() {
            return Ok(());
        }
        uninterrupted(|| {
            // SAFETY: within the mapping (asserted); the call changes no memory.
            unsafe {
                let first = self.start.cast::<u8>().add(start).as_ptr().cast();
                rustix::mm::msync(first, range.end - start, MsyncFlags::SYNC)
            }
        })
        .map_err(|e| at(e, "sync what is mapped of", &self.path))
    }

    /// Makes the written-back data durable, where `msync` does not.
    pub fn force(&mut self) -> io::Result<()> {
        // On Linux `msync` is an fsync of the range, including the device's cache.
        #[cfg(target_os = "macos")]
        uninterrupted(|| rustix::fs::fcntl_fullfsync(&self.file))
            .map_err(|e| at(e, "sync", &self.path))?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, with this length, and not used any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}
