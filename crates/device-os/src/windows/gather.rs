#![allow(unsafe_code)]

use super::directory::wide;
use super::error::at;
use super::flush;
use super::handle::{self, How, SHARE_ALL};
use super::overlapped::{self, Gathering, Operation};
use crate::checks;
use crate::extent::Extent;
use logforce_device::AlignedBuf;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED, FILE_FLAG_WRITE_THROUGH, OPEN_EXISTING,
};

/// A file of pages that are written together by `WriteFileGather`: one call for pages that lie
/// anywhere in memory and side by side in the file. Always past the system's cache: Windows has no
/// other way.
///
/// No part of the [`File`](logforce_device::File) that a log writes by, whose batches lie in one
/// piece anyway: for the page file. What it writes is durable after a [barrier](Self::barrier), be it
/// of this or of another opening of the file, or, opened so, as far as the device honours
/// write-through.
#[derive(Debug)]
pub struct GatherFile {
    path: PathBuf,
    handle: Arc<OwnedHandle>,
    page: usize,
    /// Else another opening would not know that the file has grown, and flush its data alone.
    extent: Arc<Extent>,
}

/// Pages under way. Dropped, it waits until the system has let go of them.
#[must_use = "the pages are not written, and not back, before `complete`"]
pub struct Gathered {
    operation: Operation<Gathering>,
    len: usize,
    end: u64,
}

impl GatherFile {
    /// Opens the existing file at `path`; `through` by `FILE_FLAG_WRITE_THROUGH`.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn open(path: &Path, through: bool) -> io::Result<Self> {
        let fail = |e| at(e, "open for gathered writes", path);
        let wide = wide(path).map_err(fail)?;
        let through = if through { FILE_FLAG_WRITE_THROUGH } else { 0 };
        let how = How {
            access: GENERIC_READ | GENERIC_WRITE,
            share: SHARE_ALL,
            disposition: OPEN_EXISTING,
            flags: FILE_FLAG_NO_BUFFERING | FILE_FLAG_OVERLAPPED | through,
            owner: None,
        };
        let handle = handle::open(&wide, how).map_err(fail)?;
        let identity = handle::identity(&handle).map_err(fail)?;
        Ok(GatherFile {
            path: path.to_owned(),
            handle: Arc::new(handle),
            page: super::machine::page_size(),
            extent: Extent::of(identity),
        })
    }

    /// Bytes of a page: each buffer has exactly so many, at an address that is a multiple of it.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Starts writing `pages`, in their order, from `offset` on (a multiple of the page).
    ///
    /// # Errors
    /// With the pages: `InvalidInput` for what is not aligned or not one page long, else what the
    /// system says.
    pub fn submit(
        &self,
        offset: u64,
        pages: Vec<AlignedBuf>,
    ) -> Result<Gathered, (Vec<AlignedBuf>, io::Error)> {
        let len = self.page * pages.len();
        if let Err(e) = self.check(offset, &pages, len) {
            return Err((pages, e));
        }
        let end = offset + len as u64;
        // SAFETY: each of them was just seen to be one page, aligned as one, and the handle was
        // opened without buffering and for overlapped I/O.
        let start = || unsafe { overlapped::gather(&self.handle, offset, pages) };
        self.extent
            .submitting(end, start)
            .map(|operation| Gathered {
                operation,
                len,
                end,
            })
            .map_err(|(pages, e)| (pages, at(e, "write pages to", &self.path)))
    }

    /// Makes everything durable that was [complete](Self::complete) before, by `FlushFileBuffers`.
    ///
    /// # Errors
    /// What the system says. After one nothing that was written since the last success may be
    /// believed.
    pub fn barrier(&self) -> io::Result<()> {
        flush::all(&self.handle).map_err(|e| at(e, "flush", &self.path))
    }

    /// Waits, and gives the pages back.
    pub fn complete(&self, gathered: Gathered) -> (Vec<AlignedBuf>, io::Result<()>) {
        let (pages, written) = overlapped::gathered(gathered.operation);
        self.extent.ended(gathered.end);
        let result = match written {
            Ok(n) if n == gathered.len => Ok(()),
            // Not gone on with: which pages are there the caller has to take as unknown anyway.
            Ok(n) => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the system wrote {n} of {} bytes", gathered.len),
            )),
            Err(e) => Err(at(e, "write pages to", &self.path)),
        };
        (pages, result)
    }

    fn check(&self, offset: u64, pages: &[AlignedBuf], len: usize) -> io::Result<()> {
        checks::end(offset, len)?;
        let page = self.page;
        let fits = |p: &AlignedBuf| p.len() == page && (p.as_ptr() as usize).is_multiple_of(page);
        let good = !pages.is_empty()
            && len <= 1 << 30
            && offset.is_multiple_of(page as u64)
            && pages.iter().all(fits);
        if good {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "gathered pages are of {page} bytes each, aligned to as many in memory and in the file, 1 GiB at most: \
                 offset {offset}, {} pages",
                pages.len()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(file: &GatherFile, byte: u8) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(file.page(), file.page());
        buf.fill(byte);
        buf
    }

    #[test]
    fn scattered_pages_are_written_side_by_side() {
        let temp = tempfile::TempDir::new().unwrap();
        let path = temp.path().join("pages");
        std::fs::write(&path, []).unwrap();
        for through in [false, true] {
            let file = GatherFile::open(&path, through).unwrap();
            let mode = handle::mode(&file.handle).unwrap();
            assert_eq!(mode & 0x8, 0x8, "not unbuffered");
            assert_eq!(mode & 0x2 != 0, through);
            let size = file.page() as u64;
            let first = file.submit(0, (1..=3).map(|b| page(&file, b)).collect());
            let second = file.submit(3 * size, (4..=5).map(|b| page(&file, b)).collect());
            let (pages, result) = file.complete(second.map_err(|e| e.1).unwrap());
            result.unwrap();
            assert_eq!(pages.iter().map(|p| p[0]).collect::<Vec<u8>>(), [4, 5]);
            file.complete(first.map_err(|e| e.1).unwrap()).1.unwrap();
            // Left to the drop.
            drop(
                file.submit(5 * size, vec![page(&file, 6)])
                    .map_err(|e| e.1)
                    .unwrap(),
            );
            let all = std::fs::read(&path).unwrap();
            let seen: Vec<u8> = all.chunks(file.page()).map(|p| p[0]).collect();
            assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
            assert!(
                all.chunks(file.page())
                    .all(|p| p.iter().all(|b| *b == p[0]))
            );
        }
    }

    #[test]
    fn what_is_no_page_is_refused_and_given_back() {
        let temp = tempfile::TempDir::new().unwrap();
        let path = temp.path().join("pages");
        std::fs::write(&path, []).unwrap();
        let file = GatherFile::open(&path, false).unwrap();
        let half = AlignedBuf::zeroed(file.page() / 2, file.page());
        for (offset, pages) in [(0, vec![half]), (1, vec![page(&file, 1)]), (0, vec![])] {
            let count = pages.len();
            let Err((back, e)) = file.submit(offset, pages) else {
                panic!("not refused")
            };
            assert_eq!((back.len(), e.kind()), (count, io::ErrorKind::InvalidInput));
        }
        assert_eq!(std::fs::read(&path).unwrap(), []);
    }
}
