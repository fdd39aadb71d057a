//! Checkpointer: the thread that brings generations of commits into the data file. It forces the log, writes
//! the pages in ascending order, syncs, writes the header, and truncates the log.

use super::LoggedStore;
use super::admission::EndedGeneration;
use super::proof::{Applicable, Forced};
use super::stats::add;
use super::version_chain::Bytes;
use crate::changes::Image;
use crate::error::{self, Error, Result};
use crate::files::{DATA, MAP};
use crate::header::HeaderSlots;
use logforce_device::Barrier;
use logforce_device::sync::AtomicU32;
use logforce_format::{Lsn, MAX_PAGES, MapEntry, planted};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes of pages that are written at once. This allows several writes in flight, and still
/// lets in commits that wait for the checkpointer often. 4 MiB take milliseconds if they are contiguous, and
/// 50 ms as 1,000 scattered pages.
const CHUNK: usize = 4 << 20;
/// Maximum number of contiguous runs of pages in a chunk, for writes by a queue or through the page cache.
/// Through the page cache a sync follows each chunk, which pays off only for many runs.
const CHUNK_RUNS: usize = 512;
/// Maximum number of runs in a chunk if each write past the page cache blocks a thread.
const CHUNK_RUNS_BY_THREADS: usize = 128;
/// Number of pages that are handled at once with the state locked.
const FINISH_PAGES: usize = 512;
/// Pause that lets other threads lock the state: a little longer than waking a thread takes.
const PAUSE: Duration = Duration::from_micros(50);
/// Time to the next attempt after a lack of space.
const RETRY: Duration = Duration::from_millis(200);

/// Reason why a generation was not applied to its end.
enum Stopped {
    /// The page file is being closed. The next opening redoes the rest.
    Closing,
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(e: Error) -> Self {
        Stopped::Failed(e)
    }
}

impl LoggedStore {
    /// Runs the checkpointer thread.
    pub(super) fn run_checkpointer(&self, mut slots: HeaderSlots) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.apply_generations(&mut slots)));
        if let Err(panic) = ended {
            // Fails the file: commits that wait for this thread would otherwise wait forever.
            let cause = io::Error::other("the checkpointer thread panicked");
            self.fail(Error::io("write", &self.data_dir.path)(cause));
            resume_unwind(panic);
        }
    }

    fn apply_generations(&self, slots: &mut HeaderSlots) {
        loop {
            let seen = self.checkpointer.work.observe();
            self.forget_versions();
            let ended = {
                let state = self.state();
                if state.is_closing || state.failure.is_some() {
                    return;
                }
                state.generations.ended
            };
            let Some(ended) = ended else {
                self.checkpointer.work.wait(self.runtime(), seen, None);
                continue;
            };
            match self.apply(slots, ended) {
                Ok(()) => {
                    self.state().generations.stalled = None;
                    self.progress.notify(self.runtime());
                }
                Err(Stopped::Closing) => return,
                // No commit is lost: all are in the log.
                Err(Stopped::Failed(e)) if cannot_grow(&e) => {
                    self.state().generations.stalled = Some(e);
                    self.progress.notify(self.runtime());
                    let seen = self.checkpointer.work.observe();
                    self.checkpointer
                        .work
                        .wait(self.runtime(), seen, Some(RETRY));
                }
                Err(Stopped::Failed(e)) => {
                    self.fail(e);
                    return;
                }
            }
        }
    }

    /// Forgets the older versions of pages in the versions file, and removes the file, once no reader reads
    /// them.
    fn forget_versions(&self) {
        let file = &self.contents.versions_file;
        let pages: Vec<u64> = {
            let state = self.state();
            let oldest = state.readers.asked().oldest().unwrap_or(Lsn(u64::MAX));
            if !file.is_outlived(oldest) {
                return;
            }
            state.chains.keys().copied().collect()
        };
        self.prune(&pages);
        file.remove_if_empty();
    }

    /// Forgets the versions of these pages that can no longer be read.
    fn prune(&self, pages: &[u64]) {
        for some in pages.chunks(FINISH_PAGES) {
            let freed = self.state().prune(some);
            self.contents.versions_file.free(freed);
            self.let_others_in(some);
        }
    }

    fn apply(
        &self,
        slots: &mut HeaderSlots,
        ended: EndedGeneration,
    ) -> std::result::Result<(), Stopped> {
        let forced = Forced::force(&self.log, ended.at.end)?;
        let (pages, drops) = {
            let mut state = self.state();
            // New readers of the durable state get one that is as new as the pages written below.
            state.forced(forced.end());
            let mut drops = state.drops.clone();
            drops.retain(|d| d.end <= ended.at.end);
            (state.generations.to_apply.clone(), drops)
        };
        // First page that was dropped or added since the last header.
        let mut resized_from = slots.header.page_count;
        if let Some(from) = drops.iter().map(|d| d.from).min() {
            self.drop_pages(forced, ended.at.end, &pages, from)?;
            resized_from = resized_from.min(from);
        }
        if self.state().generations.applied < self.checkpointer.recovered {
            // The previous opening may have written these changes to the map and failed to sync it. Then the
            // page cache shows what the medium lacks, and the kernel takes it for written. A power cut after
            // this checkpoint would bring dropped pages back, or make added ones look lost.
            self.contents.data.map.rewrite_from(resized_from)?;
        }
        let most = (CHUNK / self.page_size()).max(1);
        let most_runs = match self.contents.data.is_direct && !self.writers.has_queue() {
            true => CHUNK_RUNS_BY_THREADS,
            false => CHUNK_RUNS,
        };
        let mut written = Vec::with_capacity(pages.len());
        let mut failed = None;
        let mut left = &pages[..];
        while !left.is_empty() {
            let chunk;
            (chunk, left) = left.split_at(chunk_len(left, most, most_runs));
            if self.state().is_closing {
                return Err(Stopped::Closing);
            }
            if let Err(e) = self.apply_chunk(forced, ended, chunk, &mut written)? {
                failed = Some((e, self.bytes_of(chunk.len() + left.len())));
                break;
            }
            let flushed = match self.contents.data.flush() {
                Err(_) if planted!("failed-flush-forgotten") => true,
                flushed => flushed.map_err(|e| self.lost(DATA, e))?,
            };
            add(&self.counts.barriers, u64::from(flushed));
            let mut state = self.state();
            if let Some(ended) = &mut state.generations.ended {
                // Also counts pages that needed no write, because the checkpoint before had written their
                // newest version.
                ended.applied = pages.len() - left.len();
            }
            state.generations.stalled = None;
            drop(state);
            self.progress.notify(self.runtime());
        }
        if let Some((e, need)) = failed {
            return Err(Error::no_space("write", self.data_dir.path_of(DATA), need, e).into());
        }
        self.clear_added(resized_from..ended.at.page_count)?;
        if planted!("log-truncated-early") {
            self.log.truncate_front(ended.at.end).map_err(Error::from)?;
        }
        let written_map = {
            let _taken = self.take_room();
            self.contents.data.map.write()
        };
        written_map.map_err(|e| {
            let need = self.contents.data.map.unwritten();
            Error::no_space("write", self.data_dir.path_of(MAP), need, e)
        })?;
        let synced = self.contents.data.sync();
        add(&self.counts.barriers, 2);
        let synced = synced.map_err(|(file, e)| self.lost(file, e))?;
        let (commit, page_count) = (ended.at.commit, ended.at.page_count);
        let checkpoint = synced.checkpoint(slots, ended.at.end, commit, page_count, || {
            let data = &self.contents.data;
            match data.is_write_through_enough {
                true => Ok(()),
                false => (data.file.barrier(Barrier::Data)).map_err(|e| self.lost(DATA, e)),
            }
        })?;
        add(&self.counts.headers, 2);
        // Keeps versions before the log is truncated, because a reader that finds a version in the log must
        // be able to read it there.
        self.keep_leaving(ended, forced, &written)?;
        self.state().generations.clear_closed();
        self.progress.notify(self.runtime());
        self.finish(ended, &written);
        checkpoint.truncate(&self.log)?;
        self.state().generations.applied = ended.at.end;
        Ok(())
    }

    /// Records dropped pages in the map. Keeps them for readers of older states first, as pages that are
    /// overwritten. Those of `pages` that have a newer version are written afterwards.
    fn drop_pages(&self, forced: Forced, at: Lsn, pages: &[u64], from: u64) -> Result<()> {
        let rewritten = pages.partition_point(|page| *page < from);
        self.keep_bases(forced, &pages[rewritten..])?;
        let map = &self.contents.data.map;
        if !planted!("lost-page-forgotten") {
            self.keep_lost(from)?;
        }
        map.uncover(from);
        let is_present = |entry| matches!(entry, MapEntry::Present { .. });
        let mut present = map.pages_in(from..MAX_PAGES, is_present)?;
        {
            // The data file may hold a newer version: the page was written again since, and is already
            // applied.
            let state = self.state();
            let base = |page: u64| state.chains.get(&page).map_or(Lsn::ORIGIN, |c| c.base);
            present.retain(|page| {
                let dropped = state.dropped_since(*page, base(*page));
                dropped.is_some_and(|end| end <= at)
            });
        }
        for (at, page) in present.iter().enumerate() {
            if pages.binary_search(page).is_err() {
                self.keep_dropped(*page, present.len() - at)?;
            }
        }
        self.about_to_drop(&present);
        let dropped = map.set(present.into_iter().map(|page| (page, MapEntry::Dropped)));
        dropped.map_err(Error::io("write", self.data_dir.path_of(MAP)))
    }

    /// Before pages are dropped, records those that the map has lost, for readers of older states. Once they
    /// are dropped, nothing distinguishes them from pages that were never written.
    fn keep_lost(&self, from: u64) -> Result<()> {
        if self.state().readers.asked().oldest().is_none() {
            return Ok(());
        }
        let data = &self.contents.data;
        let mut page = from;
        while data.map.covers(page) {
            let found = data.file.next_data(data.offset(page));
            let Some(at) = found.map_err(Error::io("look for data in", data.path()))? else {
                break;
            };
            page = page.max(data.page_at(at));
            let is_lost = match data.map.entry(page) {
                Ok(MapEntry::Present { .. }) => false,
                Ok(_) => matches!(self.read_data(page), Err(Error::Damaged { .. })),
                Err(Error::Damaged { .. }) => true,
                Err(e) => return Err(e),
            };
            if data.map.covers(page) && is_lost {
                self.keep_dropped(page, 1)?;
            }
            page += 1;
        }
        Ok(())
    }

    /// Clears the places of pages that the next header adds and no commit wrote. For each page that a header
    /// covers, the map says what its place holds. The sync before the header makes this durable.
    ///
    /// Places of absent pages may hold something as well. A sector of the map that was lost or is stale calls
    /// dropped pages absent. Zeroes by which the file grew may not have been durable before a crash. Then
    /// some filesystems show what deleted files have left (ext4 without a journal, or with `data=writeback`,
    /// where `nodioread_nolock` is set). Such a page would look like one that the map has lost.
    fn clear_added(&self, added: Range<u64>) -> std::result::Result<(), Stopped> {
        if planted!("dropped-page-kept") {
            return Ok(());
        }
        let data = &self.contents.data;
        let _taken = self.take_room();
        let is_dropped = |entry| entry == MapEntry::Dropped;
        let dropped = data.map.pages_in(added.clone(), is_dropped)?;
        let most = (CHUNK / self.page_size()).max(1);
        let mut first = added.start;
        loop {
            let pages = data.unwritten_in(first..added.end, most)?;
            let Some(last) = pages.last() else {
                break;
            };
            if self.state().is_closing {
                return Err(Stopped::Closing);
            }
            let cleared = data.clear(&self.writers, &pages);
            let left = dropped.len() - dropped.partition_point(|page| *page < first);
            let need = self.bytes_of(left.max(pages.len()));
            let writes = cleared.map_err(|e| Error::no_space("write", data.path(), need, e))?;
            first = last + 1;
            add(&self.counts.writes, writes);
            add(&self.counts.bytes_written, self.bytes_of(pages.len()));
        }
        let cleared = dropped.into_iter().map(|page| (page, MapEntry::Absent));
        let cleared = data.map.set(cleared);
        Ok(cleared.map_err(Error::io("write", self.data_dir.path_of(MAP)))?)
    }

    /// Makes readers of the data file notice that the pages are being dropped: what they now find in the map
    /// is not the page that they look for.
    fn about_to_drop(&self, pages: &[u64]) {
        let mut state = self.state();
        state.applies += 1;
        let at = state.applies;
        for page in pages {
            // A page with a reader has a chain, because its earlier contents were kept.
            if let Some(chain) = state.chains.get_mut(page) {
                chain.applied_at = at;
            }
            state.forget_clean(*page);
        }
    }

    /// Keeps a version in the versions file, for readers of states before the durable one that replaces it.
    /// It is the first of `count` versions to keep.
    fn keep(&self, image: &Image, count: usize) -> Result<u64> {
        let until = self.state().points.durable.end;
        let versions_file = &self.contents.versions_file;
        versions_file.keep(image, until, self.bytes_of(count))
    }

    /// Keeps a page as the data file holds it, the first of `count`. A damaged page stays damaged for readers
    /// of its state, and can be overwritten.
    fn keep_data(&self, page: u64, count: usize) -> Result<Bytes> {
        match self.read_data(page) {
            Ok(image) => Ok(Bytes::InVersionsFile(self.keep(&image, count)?)),
            Err(Error::Damaged { .. }) => Ok(Bytes::Lost),
            Err(e) => Err(e),
        }
    }

    fn bytes_of(&self, pages: usize) -> u64 {
        (pages as u64).saturating_mul(self.page_size() as u64)
    }

    /// Keeps the version that older readers see of a page without a version in this generation, before it is
    /// dropped. It is the first of `count` such pages.
    fn keep_dropped(&self, page: u64, count: usize) -> Result<()> {
        let dropped = {
            let state = self.state();
            let chain = state.chains.get(&page);
            let base = chain.map_or(Lsn::ORIGIN, |c| c.base);
            let dropped = state.dropped_since(page, base);
            let is_kept = chain.is_some_and(|c| c.versions.iter().any(|v| v.end == base));
            let is_read = dropped.is_some_and(|to| state.readers.asked().any_in(base, to));
            if is_kept || !is_read {
                return Ok(());
            }
            dropped
        };
        let bytes = self.keep_data(page, count)?;
        let mut state = self.state();
        let chain = state.chains.entry(page).or_default();
        chain.keep_base(bytes, dropped);
        Ok(())
    }

    /// Writes some pages. Adds each page that it wrote to `written`, with its version.
    fn apply_chunk(
        &self,
        forced: Forced,
        ended: EndedGeneration,
        pages: &[u64],
        written: &mut Vec<(u64, Lsn)>,
    ) -> Result<io::Result<()>> {
        self.keep_bases(forced, pages)?;
        let chosen = self.choose(forced, pages);
        let mut applicable: Vec<Applicable> = Vec::with_capacity(chosen.len());
        let mut unwritten = Vec::new();
        let data = &self.contents.data;
        let is_hole = |page| {
            let is_hole = data.is_hole(page);
            is_hole.map_err(Error::io("look for data in", data.path()))
        };
        for (page, end, bytes) in &chosen {
            let image = match bytes {
                Bytes::Memory(image) => Some(image.clone()),
                Bytes::Log(redo) => Some(self.rebuild(*page, redo)?),
                Bytes::InVersionsFile(slot) => Some(self.contents.versions_file.read(*slot)?),
                Bytes::Zero if *page >= ended.at.page_count => {
                    unwritten.push((*page, MapEntry::Dropped));
                    continue;
                }
                Bytes::Zero if is_hole(*page)? => {
                    unwritten.push((*page, MapEntry::Absent));
                    continue;
                }
                // Clears the place. Otherwise a lost write of the map's sector would bring the page back, or
                // the next lost write would lose what is written there later.
                Bytes::Zero => None,
                // The version is of a state before the one that the data file holds.
                Bytes::Lost => continue,
            };
            applicable.extend(forced.admit(*page, *end, image));
        }
        let bytes = applicable.len() * self.page_size();
        let result = self
            .contents
            .data
            .map
            .set(unwritten.into_iter())
            .and_then(|()| self.contents.data.write(&self.writers, applicable));
        let result = result.map(|writes| {
            add(&self.counts.writes, writes);
            add(&self.counts.bytes_written, bytes as u64);
        });
        if result.is_ok() {
            written.extend(chosen.iter().map(|(page, end, _)| (*page, *end)));
        }
        Ok(result)
    }

    /// Reads pages from the data file that readers still need as they are there, and keeps them elsewhere.
    /// They are about to be overwritten.
    fn keep_bases(&self, forced: Forced, pages: &[u64]) -> Result<()> {
        let needed: Vec<u64> = {
            let state = self.state();
            let readers = state.readers.asked();
            let is_read = |page: &&u64| {
                let chain = state.chains.get(page);
                chain.is_some_and(|c| {
                    c.visible_at(forced.end()).is_some() && c.base_is_read(&readers)
                })
            };
            pages.iter().filter(is_read).copied().collect()
        };
        if planted!("older-reader-forgotten") {
            return Ok(());
        }
        for (at, page) in needed.iter().copied().enumerate() {
            let bytes = self.keep_data(page, needed.len() - at)?;
            let mut state = self.state();
            let base = state.chains.get(&page).map(|c| c.base);
            let dropped = base.and_then(|base| state.dropped_since(page, base));
            if let Some(chain) = state.chains.get_mut(&page) {
                chain.keep_base(bytes, dropped);
            }
        }
        Ok(())
    }

    /// Returns the newest version of each page that is durable in the log. From now on readers of the data
    /// file notice that these pages are being overwritten.
    fn choose(&self, forced: Forced, pages: &[u64]) -> Vec<(u64, Lsn, Bytes)> {
        let mut state = self.state();
        state.applies += 1;
        let at = state.applies;
        let mut chosen = Vec::with_capacity(pages.len());
        for page in pages {
            let Some(chain) = state.chains.get_mut(page) else {
                continue;
            };
            let Some(version) = chain.visible_at(forced.end()) else {
                continue;
            };
            chosen.push((*page, version.end, version.bytes.clone()));
            chain.applied_at = at;
        }
        for (page, ..) in &chosen {
            state.forget_clean(*page);
        }
        chosen
    }

    /// Keeps older versions that have readers and are only in the part of the log that is truncated next.
    fn keep_leaving(
        &self,
        ended: EndedGeneration,
        forced: Forced,
        written: &[(u64, Lsn)],
    ) -> Result<()> {
        self.state().generations.front = ended.at.end;
        loop {
            let leaving = {
                let state = self.state();
                state.leaving(ended.at.end, forced.end(), written)
            };
            if leaving.is_empty() {
                return Ok(());
            }
            let count = leaving.len();
            for (at, (page, end, bytes)) in leaving.into_iter().enumerate() {
                let image = match bytes {
                    Bytes::Memory(image) => image,
                    Bytes::Log(redo) => self.rebuild(page, &redo)?,
                    Bytes::InVersionsFile(_) | Bytes::Zero | Bytes::Lost => continue,
                };
                let slot = self.keep(&image, count - at)?;
                self.state().moved(page, end, slot);
            }
        }
    }

    /// Releases the generation's versions from memory and from the log, except for readers of older states.
    /// The data file holds the generation durably.
    ///
    /// Handles a few pages at a time, because commits and readers wait for the mutex meanwhile. Nothing here
    /// may fail, because the next generation may have ended already.
    fn finish(&self, ended: EndedGeneration, written: &[(u64, Lsn)]) {
        for some in written.chunks(FINISH_PAGES) {
            let freed = self.state().written(some);
            self.contents.versions_file.free(freed);
            self.let_others_in(some);
        }
        let pages: Vec<u64> = {
            let mut state = self.state();
            state.forget_drops(ended);
            state.chains.keys().copied().collect()
        };
        self.prune(&pages);
    }

    /// Pauses after some pages. A mutex is not fair: a thread that locks it again at once keeps the threads
    /// waiting that it has just woken.
    fn let_others_in<T>(&self, some: &[T]) {
        if some.len() == FINISH_PAGES {
            let word = AtomicU32::new(0);
            self.runtime().wait(&word, 0, Some(PAUSE));
        }
    }
}

impl LoggedStore {
    /// Makes the error of a failed sync, even of one on a full disk. The system may have dropped the written
    /// bytes, and a second sync would report success. The log has everything: the next opening redoes it.
    fn lost(&self, file: &str, error: io::Error) -> Error {
        let error = Error::io("sync", self.data_dir.path_of(file))(error);
        Error::Poisoned(Arc::new(error))
    }
}

/// Returns the number of pages to write at once: at most `most`, in at most `most_runs` runs. The pages must
/// be in ascending order.
fn chunk_len(pages: &[u64], most: usize, most_runs: usize) -> usize {
    let mut runs = 1;
    for (at, pair) in pages.windows(2).enumerate() {
        runs += usize::from(pair[1] != pair[0] + 1);
        if runs > most_runs || at + 1 == most {
            return at + 1;
        }
    }
    pages.len()
}

/// Returns true if a file could not grow. Such an error may be temporary.
fn cannot_grow(error: &Error) -> bool {
    match error {
        Error::NoSpace { .. } => true,
        Error::Io { source, .. } => error::cannot_grow(source),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_ends_by_pages_or_by_runs() {
        let together: Vec<u64> = (0..3000).collect();
        assert_eq!(chunk_len(&together, 1024, CHUNK_RUNS_BY_THREADS), 1024);
        assert_eq!(
            chunk_len(&together[..500], 1024, CHUNK_RUNS_BY_THREADS),
            500
        );
        let apart: Vec<u64> = (0..3000).map(|n| 2 * n).collect();
        assert_eq!(
            chunk_len(&apart, 1024, CHUNK_RUNS_BY_THREADS),
            CHUNK_RUNS_BY_THREADS
        );
        assert_eq!(chunk_len(&apart, 1, CHUNK_RUNS_BY_THREADS), 1);
        assert_eq!(chunk_len(&[7], 1, CHUNK_RUNS_BY_THREADS), 1);
        let pairs: Vec<u64> = (0..3000).map(|n| n / 2 * 3 + n % 2).collect();
        assert_eq!(
            chunk_len(&pairs, 1024, CHUNK_RUNS_BY_THREADS),
            2 * CHUNK_RUNS_BY_THREADS
        );
    }
}
