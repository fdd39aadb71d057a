//! Snapshots: reading a committed state.

use crate::backup;
use crate::changes::Purpose;
use crate::dispatch::View;
use crate::error::{Error, Result};
use crate::inspect::view::ReadOnlyView;
use crate::page::Page;
use logforce_core::BackupOptions;
use logforce_device::System;
use std::path::Path;
use std::sync::Arc;

/// Committed state that stays unchanged while others commit. It blocks no writer. As long as it exists, its
/// pages take space.
#[derive(Clone)]
pub struct Snapshot {
    view: View,
    page_size: u32,
}

impl Snapshot {
    pub(crate) fn new(view: View, page_size: u32) -> Self {
        Snapshot { view, page_size }
    }

    /// Returns the state with which the next opening of the page file in `path` would begin. Locks and writes
    /// nothing.
    #[doc(hidden)]
    pub fn read_only(system: &Arc<dyn System>, path: impl AsRef<Path>) -> Result<Snapshot> {
        let view = ReadOnlyView::open(system, path.as_ref())?;
        let page_size = view.header().page_size;
        Ok(Snapshot::new(View::ReadOnly(Arc::new(view)), page_size))
    }

    /// Returns the size of a page in bytes.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Returns the number of the last commit in the state, or 0 before the first commit.
    pub fn commit(&self) -> u64 {
        self.view.commit()
    }

    /// Returns the exclusive end of the page numbers.
    pub fn page_count(&self) -> u64 {
        self.view.page_count()
    }

    /// Returns the contents of a page. Contents that are in memory are not copied; others are read as by
    /// [`Snapshot::read`].
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn page(&self, page: u64) -> Result<Page> {
        check(
            page,
            self.page_count(),
            self.page_size as usize,
            self.page_size,
        )?;
        Ok(Page::new(self.view.image(page, Purpose::Read)?))
    }

    /// Makes a backup of this state: a separate page file in the directory `path`, which must be missing or
    /// empty. The backup has the same commit number, page size and commit mode, and another id. When this
    /// returns, the backup is durable, complete and closed. Other commits do not wait meanwhile.
    ///
    /// The backup survives at least what [`BackupOptions::require`] says, or none is made. Pages of zeroes
    /// take no space in it.
    ///
    /// # Errors
    /// After an error, everything that can be removed is removed. Every opening refuses what a crash leaves.
    /// [`DestinationExists`](Error::DestinationExists), [`NoSpace`](Error::NoSpace),
    /// [`Guarantee`](Error::Guarantee), and those of [`Snapshot::read`].
    pub fn backup(&self, path: impl AsRef<Path>, options: BackupOptions<'_>) -> Result<()> {
        let path = path.as_ref();
        let system = self.view.dir().system();
        let system = system.map_err(Error::io("copy into", path))?;
        backup::make(&self.view, &*system, path, options)
    }

    /// Reads a page. A page that was never written reads as zeroes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::PageSize`] if `buf` is not as long as a page, and [`Error::Damaged`]
    /// if the page's checksum does not match. Damaged contents are not returned.
    pub fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        check(page, self.page_count(), buf.len(), self.page_size)?;
        self.view.read(page, buf)
    }
}

/// Refuses page numbers out of range, and buffers that do not have the size of a page.
pub(crate) fn check(page: u64, page_count: u64, len: usize, page_size: u32) -> Result<()> {
    if page >= page_count {
        return Err(Error::OutOfRange { page, page_count });
    }
    if len != page_size as usize {
        return Err(Error::PageSize {
            page,
            len,
            page_size,
        });
    }
    Ok(())
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("commit", &self.commit())
            .field("page_count", &self.page_count())
            .finish()
    }
}
