//! Force of a file that cannot grow: the disk or a quota is full, or a limit is reached.
//!
//! The force uses any free places in the file, in any number of runs. Writing the current header into the
//! older slot as well frees the places that only the older header referred to. A commit that takes more
//! places than it gives back leaves a reserve
//! ([`WritePlan::reserve`](crate::cow::write_plan::WritePlan::reserve)), so that the file can always shrink.

use crate::cow::force::{Layout, Leader, Trouble, Written};
use crate::error::{Error, cannot_grow};
use crate::growth::zeroes;
use logforce_device::FilesystemKind;
use logforce_device::write_out::gather;
use logforce_format::{PAGE_DATA_OFFSET, place_offset};
use std::ops::Range;

/// Search for places to which a write needs no new space.
#[derive(Default)]
struct Search {
    found: Vec<Range<u64>>,
    /// Places without blocks, for which the filesystem has no space.
    refused: Vec<Range<u64>>,
    /// Parts of taken runs that are still to be tried.
    left: Vec<Range<u64>>,
    /// Places in holes of the file, which are tried last.
    holes: Vec<Range<u64>>,
    /// Number of places in `found`.
    count: u64,
}

impl Leader<'_> {
    /// Gives the blocks of all free places back to the filesystem if overwriting takes new blocks there.
    /// Blocks of free places do not help on such a filesystem. Returns true if there were any.
    pub(super) fn give_blocks_back(&mut self) -> bool {
        let (store, medium) = (self.store, &self.store.medium);
        // The older slot's places are not known to be free while its header is unknown.
        let is_known = self.token.as_ref().is_some_and(|t| t.is_older_slot_known);
        if !is_known || store.data_dir.facts.kind != FilesystemKind::Relocating {
            return false;
        }
        let state = store.lock();
        let mut runs: Vec<Range<u64>> = state.places.free_runs().collect();
        // Only the leader takes places, so these stay free.
        runs.push(state.places.end()..self.written_places());
        drop(state);
        let offset = |place| place_offset(medium.page_size, place).unwrap_or(u64::MAX);
        let mut any = false;
        for run in runs.into_iter().filter(|run| run.start < run.end) {
            let bytes = offset(run.start)..offset(run.end);
            // Skips holes. They give no blocks back, and the commit would be tried again in vain.
            let is_hole = |data| !matches!(data, Ok(Some(at)) if at < bytes.end);
            if !is_hole(medium.file.next_data(bytes.start)) {
                any |= medium.file.punch(bytes).is_ok_and(|punched| punched);
            }
        }
        if let Some(token) = &mut self.token {
            token.has_holes |= any;
        }
        any
    }

    /// Forces into the free places. `error` is the reason why the file could not grow.
    pub(super) fn force_on_a_full_disk(&mut self, error: Error) -> Result<Written, Trouble> {
        loop {
            let plan = self.plan();
            if let Some(places) = self.find_places(plan.len(), plan.reserve())? {
                let places_end = self.store.lock().places.end();
                let layout = Layout {
                    places,
                    places_end,
                    written_end: places_end,
                    is_full: true,
                };
                return self.carry_out(plan, layout);
            }
            if !self.store.lock().older_slot_keeps_places() {
                return Err(Trouble::NoSpace(error));
            }
            self.repeat_header()?;
        }
    }

    /// Takes `count` places that have blocks, in ascending order. Returns `None` if fewer than `reserve` such
    /// places would remain.
    fn find_places(
        &mut self,
        count: u64,
        reserve: u64,
    ) -> Result<Option<Vec<Range<u64>>>, Trouble> {
        let mut search = Search::default();
        let searched = self.search(count.saturating_add(reserve), &mut search);
        let found = searched.is_ok() && search.count >= count.saturating_add(reserve);
        search.found.sort_unstable_by_key(|run| run.start);
        let mut state = self.store.lock();
        let (mut places, mut missing) = (Vec::new(), if found { count } else { 0 });
        for run in search.found {
            let used = run.start..run.start + missing.min(run.end - run.start);
            missing -= used.end - used.start;
            state.places.free(used.end..run.end);
            if !used.is_empty() {
                places.push(used);
            }
        }
        for run in [search.refused, search.left, search.holes]
            .into_iter()
            .flatten()
        {
            state.places.free(run);
        }
        drop(state);
        searched?;
        Ok(found.then_some(places))
    }

    /// Searches for `wanted` places by writing zeroes to them.
    fn search(&mut self, wanted: u64, search: &mut Search) -> Result<(), Trouble> {
        let written = self.written_places();
        let granule = self.store.lock().places.granule();
        while search.count < wanted {
            let missing = wanted - search.count;
            let left = search.left.pop();
            let run = left.or_else(|| self.store.lock().places.take_run(missing, written));
            let Some(run) = run else { break };
            let begin = self.next_data(&run) / granule * granule;
            let begin = begin.clamp(run.start, run.end);
            if run.start < begin {
                search.holes.push(run.start..begin);
            }
            let run = begin..run.end;
            if run.is_empty() {
                continue;
            }
            if self.has_blocks(&run)? {
                search.count += run.end - run.start;
                search.found.push(run);
            } else if run.end - run.start > granule {
                let middle = run.start + (run.end - run.start) / granule / 2 * granule;
                search.left.extend([middle..run.end, run.start..middle]);
            } else {
                search.refused.push(run);
            }
        }
        // The disk may have a few blocks left: tries holes, and places behind the written end.
        while search.count < wanted {
            let run = match search.holes.pop() {
                Some(hole) => {
                    if hole.start + granule < hole.end {
                        search.holes.push(hole.start + granule..hole.end);
                    }
                    hole.start..hole.start + granule
                }
                None => self.store.lock().places.grow(1),
            };
            if !self.has_blocks(&run)? {
                search.refused.push(run);
                break;
            }
            search.count += granule;
            search.found.push(run);
        }
        Ok(())
    }

    /// Returns the first place of a run that may have blocks.
    fn next_data(&self, run: &Range<u64>) -> u64 {
        let medium = &self.store.medium;
        let page_size = u64::from(medium.page_size);
        let offset = place_offset(medium.page_size, run.start).unwrap_or(u64::MAX);
        match medium.file.next_data(offset) {
            Ok(Some(data)) => data.saturating_sub(PAGE_DATA_OFFSET) / page_size,
            Ok(None) => run.end,
            // The write will show if there are blocks.
            Err(_) => run.start,
        }
    }

    /// Writes zeroes to a run. Returns true if all of it has blocks.
    fn has_blocks(&mut self, run: &Range<u64>) -> Result<bool, Trouble> {
        let medium = &self.store.medium;
        let offset = |place| place_offset(medium.page_size, place).unwrap_or(u64::MAX);
        let Some(token) = &mut self.token else {
            return Ok(false);
        };
        let end = offset(run.end);
        let zeroes = gather(zeroes(offset(run.start)..end, &medium.zeroes));
        match token.write(self.store, zeroes, false) {
            Ok(()) => {
                token.len = token.len.max(end);
                Ok(true)
            }
            Err(e) if cannot_grow(&e) => Ok(false),
            Err(e) => Err(self.fatal("write", e)),
        }
    }
}
