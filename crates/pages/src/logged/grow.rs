//! Room in the data file for new pages, before a commit that needs it is accepted: what the filesystem
//! cannot hold must not get into the log, from where it could never leave.

use super::LoggedStore;
use super::proof::DataFile;
use super::read::holds;
use crate::error::{Error, Result, cannot_grow};
use crate::files::DATA;
use crate::growth::{next_end, zeroes};
use crate::write_out::{Writers, gather};
use logforce_format::MapEntry;
use std::io;
use std::ops::Range;

/// How far the data file reaches.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// It has room for so many pages.
    pub(super) reached: u64,
    /// A thread makes it larger.
    is_growing: bool,
}

/// Writes zeroes over what a crash has left at the end of the data file: in the places of absent pages
/// from `first` on, the number of pages at the last checkpoint.
///
/// The file grows by zeroes, which no checkpoint may have made durable. Some filesystems show what
/// deleted files have left in blocks that are allocated and were not written (ext4 without a journal,
/// or with `data=writeback`, where `nodioread_nolock` is set). It would pass for pages that the map has
/// lost.
pub(super) fn clear_end(data: &DataFile, writers: &Writers, first: u64) -> Result<()> {
    clear_absent(data, writers, first..u64::MAX)
}

/// Writes zeroes over what lies in the places of absent pages in `pages`.
pub(super) fn clear_absent(data: &DataFile, writers: &Writers, pages: Range<u64>) -> Result<()> {
    let path = || data.path();
    let end = data.file.len().map_err(Error::io("look at", path()))?;
    let (mut page, mut buf) = (pages.start, data.zeroes.to_vec());
    while page < pages.end && data.offset(page) < end {
        match data.map.entry(page) {
            Ok(MapEntry::Absent) => {}
            // A checkpoint clears the places of dropped pages that it adds again. A sector of the map that
            // is damaged makes damaged pages of all that the header covers, and refuses no opening.
            Ok(_) | Err(Error::Damaged { .. }) => {
                page += 1;
                continue;
            }
            Err(e) => return Err(e),
        }
        let found = data.file.next_data(data.offset(page));
        let Some(at) = found.map_err(Error::io("look for data in", path()))? else {
            break;
        };
        if data.page_at(at) > page {
            page = data.page_at(at);
            continue;
        }
        if holds(&*data.file, data.offset(page), &mut buf).map_err(Error::io("read", path()))? {
            let cleared = data.clear(writers, &[page]);
            cleared.map_err(|e| {
                Error::no_space("clear a page in", path(), data.zeroes.len() as u64, e)
            })?;
        }
        page += 1;
    }
    Ok(())
}

impl LoggedStore {
    /// Makes the data file large enough for `page_count` pages.
    ///
    /// It grows by a step of zeroes. Where the pages begin beyond that, only the last one of them is
    /// written: a file that grows far at once is sparse.
    pub(super) fn reach(&self, page_count: u64) -> Result<()> {
        let reached = loop {
            let seen = self.progress.observe();
            {
                let mut state = self.state();
                if page_count <= state.room.reached {
                    return Ok(());
                }
                if !state.room.is_growing {
                    state.room.is_growing = true;
                    break state.room.reached;
                }
            }
            self.progress.wait(self.runtime(), seen, None);
        };
        let grown = self.grow(reached, page_count);
        {
            let mut state = self.state();
            state.room.is_growing = false;
            if let Ok(reached) = grown {
                state.room.reached = reached;
            }
        }
        self.progress.notify(self.runtime());
        let path = || self.data_dir.path_of(DATA);
        grown.map(drop).map_err(|e| {
            let offset = |page| self.contents.data.offset(page);
            let need = offset(page_count).saturating_sub(offset(reached));
            Error::no_space("make room for more pages in", path(), need, e)
        })
    }

    /// Writes from the page `reached` on: no commit can have written one of those, since it would have
    /// come here first, and waited. Returns how many pages there is room for.
    fn grow(&self, reached: u64, page_count: u64) -> io::Result<u64> {
        let page_size = self.header.page_size;
        let (len, needed) = (
            self.contents.data.offset(reached),
            self.contents.data.offset(page_count),
        );
        let step_end = next_end(len, len, page_size);
        if needed > step_end {
            self.extend(
                self.contents.data.offset(page_count - 1)..needed,
                page_count,
            )?;
            return Ok(page_count);
        }
        let target = self.contents.data.page_at(step_end);
        match self.extend(len..step_end, target) {
            Ok(()) => Ok(target),
            // It may be enough for these pages.
            Err(e) if cannot_grow(&e) => {
                self.extend(len..needed, page_count)?;
                Ok(page_count)
            }
            Err(e) => Err(e),
        }
    }

    /// Writes to the new end of the data file, which holds `page_count` pages then, and has the map
    /// reach as far.
    fn extend(&self, offsets: Range<u64>, page_count: u64) -> io::Result<()> {
        self.contents.data.map.extend(page_count)?;
        let runs = gather(zeroes(offsets, &self.contents.data.zeroes));
        // No barrier: one that failed here might lose what the checkpointer has written, and the
        // checkpointer's own would not tell. Its checkpoint makes this durable with everything else.
        self.writers.write(runs, false)
    }
}
