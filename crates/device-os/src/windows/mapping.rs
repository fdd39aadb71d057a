#![allow(unsafe_code)]

use super::error::at;
use super::flush;
use super::handle::{self, How, SHARE_ALL};
use super::open_directory::wide;
use crate::mapped::outside;
use std::io;
use std::ops::Range;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::OPEN_EXISTING;
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_WRITE, FlushViewOfFile, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile,
    PAGE_READWRITE, UnmapViewOfFile,
};

/// Mapped bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    path: PathBuf,
    file: OwnedHandle,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the view belongs to this value alone, and any thread may use and unmap it.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn open(path: &Path, len: usize) -> io::Result<Mapping> {
        let fail = |e| at(e, "map", path);
        let wide = wide(path).map_err(fail)?;
        let how = How {
            access: GENERIC_READ | GENERIC_WRITE,
            share: SHARE_ALL,
            disposition: OPEN_EXISTING,
            flags: 0,
            owner: None,
        };
        let file = handle::open(&wide, how).map_err(fail)?;
        if handle::len(&file).map_err(fail)? < len as u64 {
            return Err(fail(outside()));
        }
        let size = len as u64;
        // SAFETY: the handle is open; no attributes and no name are given.
        let section = unsafe {
            CreateFileMappingW(
                file.as_raw_handle(),
                ptr::null(),
                PAGE_READWRITE,
                (size >> 32) as u32,
                size as u32,
                ptr::null(),
            )
        };
        if section.is_null() {
            return Err(fail(io::Error::last_os_error()));
        }
        // SAFETY: the call has just opened it, and nothing else owns it. The view keeps what it needs.
        let section = unsafe { OwnedHandle::from_raw_handle(section) };
        // SAFETY: the section is open and has that many bytes; the system chooses the address.
        let view = unsafe { MapViewOfFile(section.as_raw_handle(), FILE_MAP_WRITE, 0, 0, len) };
        let start = NonNull::new(view.Value.cast::<u8>());
        let start = start.ok_or_else(|| fail(io::Error::last_os_error()))?;
        Ok(Mapping {
            path: path.to_owned(),
            file,
            start,
            len,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// # Panics
    /// If the bytes do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset);
        // SAFETY: the target lies within the view (asserted), which lives as long as this value and is
        // not written by other code in this process: `&mut self`. No reference to it exists, so the bytes
        // cannot overlap it, and others may change the file meanwhile.
        unsafe {
            let target = self.start.add(offset);
            target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Writes a range back to the device.
    ///
    /// # Panics
    /// If the range is outside the view.
    pub fn write_back(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len);
        if range.is_empty() {
            // A length of zero would mean "to the end of the view".
            return Ok(());
        }
        // SAFETY: within the view (asserted); the call changes no memory.
        let ok = unsafe {
            let first = self.start.add(range.start);
            FlushViewOfFile(first.as_ptr().cast(), range.len())
        };
        match ok {
            0 => Err(at(
                io::Error::last_os_error(),
                "sync what is mapped of",
                &self.path,
            )),
            _ => Ok(()),
        }
    }

    /// Makes the written-back data durable: the view's flush does not wait for the device's cache.
    pub fn force(&mut self) -> io::Result<()> {
        flush::all(&self.file).map_err(|e| at(e, "flush", &self.path))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS {
            Value: self.start.as_ptr().cast(),
        };
        // SAFETY: mapped by this value, and not used any more.
        let _ = unsafe { UnmapViewOfFile(view) };
    }
}
