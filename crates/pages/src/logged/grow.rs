//! Growth of the data file and the map: takes blocks for new pages before a commit that needs them is
//! accepted. Pages that the filesystem cannot hold must not get into the log, because they could never leave
//! it.

use super::LoggedStore;
use super::proof::DataFile;
use super::room::filled_until;
use crate::changes::ByPage;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result, cannot_grow};
use crate::files::DATA;
use crate::growth::next_end;
use logforce_format::{MAP_SECTOR_ENTRIES, planted};
use std::io;
use std::ops::Range;

/// Pages whose places in the data file and in the map have blocks. Writing there takes no space.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Pages below this one have blocks.
    reached: u64,
    /// Other pages that have blocks: a bit for each page of a sector of the map.
    apart: ByPage<u64>,
    /// Exclusive end of the pages that the log held at the opening, until the data file has them.
    redone: u64,
    /// True while a thread takes blocks, writes the map, or clears places.
    is_taken: bool,
}

impl Room {
    /// Finds the pages that have blocks, as far as that can be seen from outside. `redone` is the end of the
    /// pages that the checkpointer brings in from the log.
    pub(super) fn find(data: &DataFile, is_in_place: bool, redone: u64) -> io::Result<Room> {
        let len = data.file.len()?;
        let (mut filled, mut map) = (len, u64::MAX);
        // On other filesystems each write takes new blocks, whatever was there before.
        if is_in_place && !planted!("holes-are-room") {
            filled = filled_until(&*data.file, data.offset(0).min(len)..len);
            map = data.map.filled_pages()?;
        }
        Ok(Room {
            reached: data.page_at(filled).min(map),
            redone,
            ..Room::default()
        })
    }

    fn place_of(page: u64) -> (u64, u64) {
        let entries = MAP_SECTOR_ENTRIES as u64;
        (page / entries, 1 << (page % entries))
    }

    fn has(&self, page: u64) -> bool {
        let (sector, bit) = Self::place_of(page);
        page < self.reached || self.apart.get(&sector).is_some_and(|bits| bits & bit != 0)
    }

    fn add(&mut self, page: u64) {
        let (sector, bit) = Self::place_of(page);
        *self.apart.entry(sector).or_default() |= bit;
    }

    /// Returns the pages for which the changes need blocks, with true for each that is written.
    fn missing(&self, changes: &Changes) -> Vec<(u64, bool)> {
        let behind = changes.pages.range(self.reached..);
        let lacks = behind.filter(|(page, _)| !self.has(**page));
        let is_write = |change: &Change| matches!(change, Change::Write { .. });
        lacks
            .map(|(page, change)| (*page, is_write(change)))
            .collect()
    }
}

impl Room {
    /// Returns the runs of those pages that have no blocks.
    fn lacking(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        if self.apart.is_empty() {
            return vec![pages];
        }
        let lacking: Vec<u64> = pages.filter(|page| !self.has(*page)).collect();
        let runs = lacking.chunk_by(|a, b| a + 1 == *b);
        runs.filter_map(|run| Some(*run.first()?..run.last()? + 1))
            .collect()
    }
}

/// Returns those of the pages that are behind `reached`.
fn behind(reached: u64, pages: &Range<u64>) -> Range<u64> {
    pages.start.max(reached)..pages.end
}

/// Right to take blocks, to write the map, or to clear places. Two threads that did so at once would
/// overwrite each other's bytes with what they had read before.
pub(super) struct SpaceGuard<'a>(&'a LoggedStore);

impl Drop for SpaceGuard<'_> {
    fn drop(&mut self) {
        self.0.state().room.is_taken = false;
        self.0.progress.notify(self.0.runtime());
    }
}

impl LoggedStore {
    /// Waits for other threads that write to the files outside the checkpointer's pages, and takes the right
    /// to do so.
    pub(super) fn take_room(&self) -> SpaceGuard<'_> {
        loop {
            let seen = self.progress.observe();
            if !std::mem::replace(&mut self.state().room.is_taken, true) {
                return SpaceGuard(self);
            }
            self.progress.wait(self.runtime(), seen, None);
        }
    }

    /// Makes the data file and its map take the blocks that a commit needs. `before` is the number of pages
    /// before the commit. Blocks are needed for the pages that it changes, for dropped pages that it adds
    /// again, and in the map also for pages that it drops. A checkpoint clears the places of added pages.
    /// That takes blocks where a place has holes or shares blocks with another file.
    pub(super) fn reach(&self, before: u64, changes: &Changes) -> Result<()> {
        let added = match planted!("added-without-room") {
            true => 0..0,
            false => changes.added(before),
        };
        let resized = before.min(changes.resize.drop_from)..before.max(added.end);
        // Does not make a list first, because nearly every commit ends here.
        let reached = self.state().room.reached;
        let last = changes.pages.last_key_value();
        let lacks = last.is_some_and(|(last, _)| *last >= reached)
            && !self.state().room.missing(changes).is_empty();
        if lacks || !behind(reached, &resized).is_empty() {
            return self.grow(added, resized, changes);
        }
        Ok(())
    }

    fn grow(&self, added: Range<u64>, resized: Range<u64>, changes: &Changes) -> Result<()> {
        // It writes back bytes that it has read, which the next opener may have replaced.
        let _use = self.uses.begin()?;
        let (taken, reached, missing) = loop {
            let taken = self.take_room();
            let state = self.state();
            let (reached, missing) = (state.room.reached, state.room.missing(changes));
            let has_room = missing.is_empty() && behind(reached, &resized).is_empty();
            if state.room.redone <= reached || has_room {
                break (taken, reached, missing);
            }
            drop(state);
            drop(taken);
            // The checkpointer may be writing this very page where blocks are missing, and it comes first for
            // space.
            self.checkpoint()?;
            self.state().room.redone = 0;
        };
        let map = &self.contents.data.map;
        map.fill_used(behind(reached, &resized))?;
        let grown = self.take_blocks(reached, &missing).and_then(|()| {
            self.each_held(&added, |page| {
                self.take_blocks_of(page..page + 1)?;
                self.state().room.add(page);
                Ok(())
            })
        });
        drop(taken);
        grown.map_err(|e| {
            let mut need = missing.len();
            let _ = self.each_held(&added, |_| {
                need += 1;
                Ok(())
            });
            Error::no_space(
                "take space for pages in",
                self.data_dir.path_of(DATA),
                (need * self.page_size()) as u64,
                e,
            )
        })
    }

    /// Visits those of the pages whose places hold something and have no blocks. Does not make a list,
    /// because a copied file may have any number of them.
    fn each_held(
        &self,
        pages: &Range<u64>,
        mut visit: impl FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let data = &self.contents.data;
        let mut pages = behind(self.state().room.reached, pages);
        let len = match pages.is_empty() {
            true => 0,
            false => data.file.len()?,
        };
        while pages.start < pages.end
            && data.offset(pages.start) < len
            && let Some(at) = data.file.next_data(data.offset(pages.start))?
        {
            let page = pages.start.max(data.page_at(at));
            if page < pages.end && !self.state().room.has(page) {
                visit(page)?;
            }
            pages.start = page + 1;
        }
        Ok(())
    }

    /// Takes blocks for all pages up to a step behind those that begin near `reached`, and for each of the
    /// other pages.
    fn take_blocks(&self, reached: u64, missing: &[(u64, bool)]) -> io::Result<()> {
        let data = &self.contents.data;
        let step_end = |page| {
            let len = data.offset(page);
            data.page_at(next_end(len, len, self.header.page_size))
        };
        let near = step_end(reached);
        let mut end = near;
        for (page, _) in missing {
            end = if *page <= end { end.max(page + 1) } else { end };
        }
        if missing.first().is_some_and(|(page, _)| *page < near) {
            match self.take_lacking(reached..end) {
                Ok(()) => self.state().room.reached = end,
                // There may be enough space for the pages themselves.
                Err(e) if cannot_grow(&e) => {}
                Err(e) => return Err(e),
            }
        }
        for run in missing.chunk_by(|a, b| a.1 && b.1 && a.0 + 1 == b.0) {
            let (Some((first, is_write)), Some((last, _))) = (run.first(), run.last()) else {
                continue;
            };
            let pages = (*first).max(self.state().room.reached)..last + 1;
            if pages.is_empty() {
                continue;
            }
            if !is_write && data.is_hole(*first)? {
                data.map.fill(pages)?;
                continue;
            }
            let is_last = missing.last() == run.last();
            if is_last || !planted!("room-for-the-last-page") {
                self.take_blocks_of(pages.clone())?;
            }
            let mut state = self.state();
            pages.for_each(|page| state.room.add(page));
        }
        Ok(())
    }

    /// Takes blocks for those of the pages that have none. The checkpointer may be writing the others: the
    /// bytes that were read here before would overwrite its bytes. Blocks of a page that is not flushed yet
    /// look missing on a filesystem that allocates late.
    fn take_lacking(&self, pages: Range<u64>) -> io::Result<()> {
        let lacking =
            planted!("blocks-taken-again", vec![pages], else self.state().room.lacking(pages));
        lacking
            .into_iter()
            .try_for_each(|run| self.take_blocks_of(run))
    }

    fn take_blocks_of(&self, pages: Range<u64>) -> io::Result<()> {
        self.contents.data.map.fill(pages.clone())?;
        self.contents.data.fill(&self.writers, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_blocks_are_left_out() {
        let mut room = Room {
            reached: 5,
            ..Room::default()
        };
        let runs = |room: &Room, pages| -> Vec<(u64, u64)> {
            let runs = room.lacking(pages).into_iter();
            runs.map(|run| (run.start, run.end)).collect()
        };
        assert_eq!(runs(&room, 5..900), [(5, 900)]);
        for page in [7, 8, 70, 899] {
            room.add(page);
        }
        assert_eq!(runs(&room, 3..900), [(5, 7), (9, 70), (71, 899)]);
        assert_eq!(runs(&room, 7..9), []);
    }
}
