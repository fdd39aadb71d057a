//! *Log before page*, as types: the order in which things must become durable. A step cannot be taken before
//! the one that it relies on.
//!
//! [`Forced`] (the log is durable up to an LSN) → [`Forced::admit`] returns an [`Applicable`] page → only
//! such pages are written to the data file → [`Synced`] → [`Checkpointed`] → the log is truncated.

use super::map::PageMap;
use super::read::{holds, page_offset};
use super::room::{is_hole, unfilled};
use crate::changes::Image;
use crate::error::{Error, Result};
use crate::files::{DATA, MAP};
use crate::header::HeaderSlots;
use logforce_core::Log;
use logforce_device::write_out::{Run, Writers, gather};
use logforce_device::{Barrier, File};
use logforce_format::{
    LoggedState, Lsn, MapEntry, PAGE_DATA_OFFSET, PAGE_HEADER_LEN, PageFileHeader, PageFileKind,
    planted,
};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Proof that the log is durable up to this LSN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forced(Lsn);

impl Forced {
    /// Forces the log up to `end`. Otherwise a crash could leave a page in the data file whose commit is
    /// gone.
    pub(super) fn force(log: &Log, end: Lsn) -> Result<Forced> {
        if planted!("page-before-log") {
            return Ok(Forced(Lsn(u64::MAX)));
        }
        log.force(end)?;
        Ok(Forced(log.durable_lsn().max(end)))
    }

    /// Returns the end of the durable part of the log.
    pub(super) fn end(self) -> Lsn {
        self.0
    }

    /// Returns the page for writing to the data file, if the version is durable in the log. `None` as image
    /// clears its place.
    pub(super) fn admit(self, page: u64, end: Lsn, image: Option<Image>) -> Option<Applicable> {
        (end <= self.0).then_some(Applicable { page, image })
    }
}

/// Page whose version is durable in the log.
#[derive(Debug)]
pub(super) struct Applicable {
    page: u64,
    image: Option<Image>,
}

/// Data file, to which pages are applied, and its map.
pub(super) struct DataFile {
    pub(super) file: Arc<dyn File>,
    pub(super) map: PageMap,
    pub(super) page_size: u32,
    /// A page of zeroes.
    pub(super) zeroes: Image,
    /// True if pages are written past the system's cache.
    pub(super) is_direct: bool,
    /// True if a header that is written through is as durable as after a barrier.
    pub(super) is_write_through_enough: bool,
}

/// Proof that everything written to the data file and its map is durable.
#[derive(Debug)]
pub(super) struct Synced(());

/// Proof that the header says, durably, that redo begins at this LSN.
#[derive(Debug)]
pub(super) struct Checkpointed(Lsn);

impl DataFile {
    /// Returns the offset of a page in bytes.
    pub(super) fn offset(&self, page: u64) -> u64 {
        page_offset(self.page_size as usize, page)
    }

    /// Returns the number of pages before this offset.
    pub(super) fn page_at(&self, offset: u64) -> u64 {
        offset.saturating_sub(PAGE_DATA_OFFSET) / u64::from(self.page_size)
    }

    /// Returns the path of the file, for messages.
    pub(super) fn path(&self) -> PathBuf {
        self.map.beside(DATA)
    }

    /// Returns true if the place of the page has no blocks, because nothing was ever written there.
    pub(super) fn is_hole(&self, page: u64) -> io::Result<bool> {
        is_hole(&*self.file, self.offset(page)..self.offset(page + 1))
    }

    /// Makes the file take blocks for these pages, without changing a byte. Nothing else may write them
    /// meanwhile.
    ///
    /// There is no barrier. One that failed here might lose what the checkpointer has written, and the
    /// checkpointer's own barrier would not report it. The next checkpoint makes this durable with everything
    /// else.
    pub(super) fn fill(&self, writers: &Writers, pages: Range<u64>) -> io::Result<()> {
        let bytes = self.offset(pages.start)..self.offset(pages.end);
        let unfilled = unfilled(&*self.file, bytes, &self.zeroes)?;
        writers.write(gather(unfilled), false)
    }

    /// Writes pages, which must be in ascending order. Returns the number of writes.
    pub(super) fn write(&self, writers: &Writers, pages: Vec<Applicable>) -> io::Result<u64> {
        let entry = |p: &Applicable| match &p.image {
            Some(image) => self.map.entry_of(p.page, image),
            None => MapEntry::Absent,
        };
        self.map.set(pages.iter().map(|p| (p.page, entry(p))))?;
        let image = |image: Option<Image>| image.unwrap_or_else(|| self.zeroes.clone());
        let pages = pages.into_iter();
        let runs = gather(pages.map(|p| (self.offset(p.page), image(p.image))));
        self.write_runs(writers, runs)
    }

    /// Returns the first pages of `range`, at most `most`, that the map does not call written and whose
    /// places have blocks.
    ///
    /// A place that reads as zeroes counts as well. The previous opening may have failed to sync these
    /// zeroes: then the page cache shows what the medium lacks, and a power cut would bring back what was
    /// there before.
    pub(super) fn unwritten_in(&self, range: Range<u64>, most: usize) -> Result<Vec<u64>> {
        let len = self.file.len().map_err(Error::io("look at", self.path()))?;
        let (mut page, mut pages) = (range.start, Vec::new());
        while page < range.end && self.offset(page) < len && pages.len() < most {
            if !self.is_unwritten(page)? {
                page += 1;
                continue;
            }
            let found = self.file.next_data(self.offset(page));
            let Some(at) = found.map_err(Error::io("look for data in", self.path()))? else {
                break;
            };
            if self.page_at(at) > page {
                page = self.page_at(at);
                continue;
            }
            pages.push(page);
            page += 1;
        }
        Ok(pages)
    }

    fn is_unwritten(&self, page: u64) -> Result<bool> {
        let is_zero = || {
            let mut buf = self.zeroes.to_vec();
            holds(&*self.file, self.offset(page), &mut buf).is_ok_and(|holds| !holds)
        };
        match self.map.entry(page) {
            Ok(MapEntry::Present { .. }) => Ok(false),
            Ok(MapEntry::Absent) if planted!("end-not-cleared") => Ok(false),
            Ok(MapEntry::Absent) if planted!("cleared-page-believed") && is_zero() => Ok(false),
            // If the sector is damaged, this opening has written none of its pages.
            Ok(_) | Err(Error::Damaged { .. }) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Writes zeroes to the places of these pages, which must be in ascending order. Returns the number of
    /// writes.
    pub(super) fn clear(&self, writers: &Writers, pages: &[u64]) -> io::Result<u64> {
        let zeroes = |page: &u64| (self.offset(*page), self.zeroes.clone());
        self.write_runs(writers, gather(pages.iter().map(zeroes)))
    }

    fn write_runs(&self, writers: &Writers, runs: Vec<Run>) -> io::Result<u64> {
        let count = runs.len() as u64;
        match self.is_direct {
            true => writers.write(runs, false)?,
            false => writers.write_in_turn(&runs)?,
        }
        Ok(count)
    }

    /// Makes the system write the pages that it has cached. Then a checkpoint's sync finds little left to do,
    /// and commits that wait for pages to be applied wait for the device and not for its cache. Returns true
    /// if there was anything to do.
    pub(super) fn flush(&self) -> io::Result<bool> {
        if self.is_direct {
            return Ok(false);
        }
        self.file.barrier(Barrier::Data)?;
        Ok(true)
    }

    /// Makes everything written durable, including the map and all metadata. Before Linux got "ext4: fix
    /// fsync(2) for nojournal mode" (February 2026), a data sync on ext4 without a journal left out where
    /// blocks lie. A power cut then left holes (docs/bugs-found.md).
    ///
    /// # Errors
    /// The error, with the name of the file that could not be synced.
    pub(super) fn sync(&self) -> std::result::Result<Synced, (&'static str, io::Error)> {
        if !planted!("data-file-unsynced") {
            let synced = self.file.barrier(Barrier::Full);
            synced.map_err(|e| (DATA, e))?;
        }
        self.map.sync().map_err(|e| (MAP, e))?;
        Ok(Synced(()))
    }
}

impl Synced {
    /// Writes the header: redo begins at `redo_from` from now on. A crash before that leaves the old header,
    /// and the pages are written again from the log. Calls `force` after each write.
    pub(super) fn checkpoint(
        self,
        slots: &mut HeaderSlots,
        redo_from: Lsn,
        commit: u64,
        page_count: u64,
        force: impl Fn() -> Result<()>,
    ) -> Result<Checkpointed> {
        let path = slots.path().clone();
        let PageFileKind::Logged(state) = slots.header.kind else {
            let why = io::Error::other("not the header of a logged file");
            return Err(Error::io("write the header of", path)(why));
        };
        let header = PageFileHeader {
            commit,
            page_count,
            kind: PageFileKind::Logged(LoggedState { redo_from, ..state }),
            ..slots.header
        };
        // Writes both slots, one after the other. The older header needs a part of the log that is truncated
        // next. With the new header in one slot only, the loss of that slot would make the file unopenable.
        for _ in 0..2 {
            slots.store(header).map_err(|e| {
                let need = 2 * PAGE_HEADER_LEN as u64;
                Error::no_space("write the header of", path.clone(), need, e)
            })?;
            force()?;
        }
        Ok(Checkpointed(redo_from))
    }
}

impl Checkpointed {
    /// Removes what the data file holds durably from the log.
    pub(super) fn truncate(self, log: &Log) -> Result<()> {
        log.truncate_front(self.0).map_err(Error::from)
    }
}
