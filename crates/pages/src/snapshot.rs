//! Reading a committed state.

use crate::backup;
use crate::dispatch::View;
use crate::error::{Error, Result};
use crate::inspect::view::ReadOnlyView;
use crate::page::Page;
use logforce_core::BackupOptions;
use logforce_device::System;
use std::path::Path;
use std::sync::Arc;

/// A committed state, which stays as it is however much is committed meanwhile. It blocks no writer;
/// while it is there, what it shows takes space.
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

    /// The number of the last commit in it; 0 before the first.
    pub fn commit(&self) -> u64 {
        self.view.commit()
    }

    /// Pages have numbers below this one.
    pub fn page_count(&self) -> u64 {
        self.view.page_count()
    }

    /// A page's contents, without a copy where they are in memory. As [`Snapshot::read`] otherwise.
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
        Ok(Page::new(self.view.image(page)?))
    }

    /// Makes a backup: a page file of its own that holds this state, in the directory `path`, which
    /// must be missing or empty. It has the same commit number, page size and commit
    /// mode, and another id. It is durable, complete and closed when this returns. Commits go on
    /// meanwhile, and do not wait.
    ///
    /// The copy survives at least what [`BackupOptions::require`] says, or none is made. Pages that are zeroes
    /// take no space in it.
    ///
    /// # Errors
    /// After an error nothing is left, as far as it can be removed. What a crash leaves is refused by
    /// every opening. [`DestinationExists`](Error::DestinationExists), [`NoSpace`](Error::NoSpace),
    /// [`Guarantee`](Error::Guarantee), and those of [`Snapshot::read`].
    pub fn backup(&self, path: impl AsRef<Path>, options: BackupOptions<'_>) -> Result<()> {
        let path = path.as_ref();
        let system = self.view.dir().system();
        let system = system.map_err(Error::io("copy into", path))?;
        backup::make(&self.view, &*system, path, options)
    }

    /// Reads a page. One that was never written is zeroes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::PageSize`] if `buf` is not as long as a page, and
    /// [`Error::Damaged`] if the page's checksum does not fit: what was read is not given out then.
    pub fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        check(page, self.page_count(), buf.len(), self.page_size)?;
        self.view.read(page, buf)
    }
}

/// Refuses numbers out of range and memory of another size.
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
