//! Force of a copy-on-write file. One leader at a time writes the new pages to free places, by write-through
//! or followed by a barrier (`forces_by_write_through`). Only then does it write, durably, the header that
//! refers to them.

use crate::changes::Image;
use crate::cow::background::is_check_due;
use crate::cow::commit_group::CommitGroup;
use crate::cow::state::{CommittedState, LeaderToken, State};
use crate::cow::store::{Counts, CowStore};
use crate::cow::write_plan::{Placed, WritePlan};
use crate::error::{Error, Result, cannot_grow};
use crate::growth::{next_end, zeroes};
use logforce_device::Barrier;
use logforce_device::write_out::{Run, gather};
use logforce_format::{
    CopyOnWriteRoot, PAGE_DATA_OFFSET, PAGE_HEADER_LEN, PageFileHeader, PageFileKind, place_offset,
    planted,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Thread that writes. However it ends, the next leader gets the token.
pub(super) struct Leader<'a> {
    pub(super) store: &'a CowStore,
    /// `None` once it was given back.
    pub(super) token: Option<Box<LeaderToken>>,
    group: Arc<CommitGroup>,
    from: CommittedState,
    to: CommittedState,
    header: PageFileHeader,
    /// Start of the write. Read before, because the clock is not read under the mutex.
    began: Duration,
}

impl LeaderToken {
    pub(super) fn write(&self, store: &CowStore, runs: Vec<Run>, through: bool) -> io::Result<()> {
        let bytes = runs.iter().map(|run| run.len() as u64).sum();
        Counts::add(&store.counts.writes, runs.len() as u64);
        Counts::add(&store.counts.bytes_written, bytes);
        self.writers.write(runs, through)
    }
}

/// Reason why a force failed.
pub(super) enum Trouble {
    /// The write needs space that is missing, or the file may not grow. Nothing was overwritten, so the file
    /// continues without these commits.
    NoSpace(Error),
    /// The contents of the medium are unknown from now on.
    Fatal(Error),
}

/// Result of a force.
pub(super) struct Written {
    placed: Placed,
    freed: Vec<u64>,
    header: PageFileHeader,
    /// True if the force reached the end of the space.
    was_full: bool,
}

/// Places to which a plan is written.
pub(super) struct Layout {
    /// Place of each item, in ascending order.
    pub(super) places: Vec<Range<u64>>,
    /// Exclusive end of the places in use.
    pub(super) places_end: u64,
    /// Exclusive end of the places for which the file must be long enough.
    pub(super) written_end: u64,
    /// True if the disk is full: the file does not grow, and each page is written separately.
    pub(super) is_full: bool,
}

impl CowStore {
    /// Makes everything committed durable.
    pub(crate) fn force(&self) -> Result<()> {
        self.check_process()?;
        self.lock().check()?;
        self.force_all()?;
        // Checks the files, because an opening does not find a checkpoint in files that were taken away.
        self.check_location()
    }

    /// Forces as [`CowStore::force`], also while the file is being closed.
    pub(crate) fn force_all(&self) -> Result<()> {
        let group = self.lock().groups.last();
        if let Some(group) = group {
            self.wait_for(&group)?;
        }
        self.fill_both_slots();
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        // Commits that were accepted and rolled back must be reported.
        state.groups.take_unreported()
    }

    /// Writes headers until both slots hold the durable state. Then one lost block does not lose it.
    fn fill_both_slots(&self) {
        let commit = self.lock().durable.commit;
        loop {
            let mut state = self.lock();
            if state.failed.is_some() || !state.has_one_header_of(commit) {
                return;
            }
            let in_flight = state.groups.in_flight();
            let leader = Leader::begin(self, &mut state);
            drop(state);
            match (leader, in_flight) {
                (Some(leader), _) if leader.group.is_empty() => return leader.lead_nothing(),
                (Some(leader), _) => leader.lead(),
                // The committers of the group learn its outcome.
                (None, Some(group)) => drop(self.wait_for(&group)),
                // The file was closed meanwhile.
                (None, None) => return,
            }
        }
    }

    /// Waits for the outcome of a group. Leads the group if no other thread does.
    pub(crate) fn wait_for(&self, group: &Arc<CommitGroup>) -> Result<()> {
        loop {
            let seen = group.done.observe();
            let mut state = self.lock();
            if let Some(outcome) = group.outcome() {
                return outcome;
            }
            let leader = Leader::begin(self, &mut state);
            drop(state);
            match leader {
                Some(leader) => leader.lead(),
                None => group.done.wait(self.runtime(), seen, None),
            }
        }
    }

    /// Returns true if the runs are forced by write-through, each durable by itself, instead of by a barrier
    /// after all of them.
    ///
    /// A barrier costs a flush of the device's cache, however much was written. A write-through costs about
    /// the same for each run, and several are in flight. Where the device writes through natively, it is
    /// cheaper for few bytes. So there is a crossover, in runs and in bytes, which depends on the device:
    /// [`WriteThroughLimit`](crate::WriteThroughLimit), measured if possible. Write-through is used only
    /// where it guarantees as much as a barrier.
    fn forces_by_write_through(&self, runs: usize, bytes: u64) -> bool {
        self.is_write_through_enough
            && runs <= self.write_through.runs
            && bytes <= self.write_through.bytes
    }
}

impl<'a> Leader<'a> {
    /// Takes the leader's token, if it is available, and everything committed so far.
    fn begin(store: &'a CowStore, state: &mut State) -> Option<Leader<'a>> {
        let token = state.token.take()?;
        let group = state.groups.begin_force();
        // All commits whose force was requested are in this group.
        state.schedule.clear();
        Some(Leader {
            store,
            token: Some(token),
            group,
            from: state.durable.clone(),
            to: state.latest.clone(),
            header: state.header,
            began: Duration::ZERO,
        })
    }

    fn lead(mut self) {
        self.began = self.store.runtime().now();
        let mut forced = self.force();
        // Blocks are not given back for a growing commit, because the file keeps them as its reserve.
        if matches!(forced, Err(Trouble::NoSpace(_)))
            && self.plan().reserve() == 0
            && self.give_blocks_back()
        {
            forced = self.force();
        }
        let ended = match forced {
            Ok(forced) => self.publish(forced),
            Err(Trouble::NoSpace(error)) => {
                let mut state = self.store.lock();
                let (ended, gone) = state.roll_back(&error);
                self.give_back(&mut state);
                drop(state);
                drop(gone);
                ended
            }
            Err(Trouble::Fatal(error)) => {
                let mut state = self.store.lock();
                let ended = state.fail(error);
                self.give_back(&mut state);
                ended
            }
        };
        let took = self.store.runtime().now().saturating_sub(self.began);
        self.store.lock().schedule.note_force(took);
        self.notify(&ended);
    }

    /// Writes the new pages and nodes, forces them, and then writes the header that refers to them.
    fn force(&mut self) -> std::result::Result<Written, Trouble> {
        // Checks before writing: if the lock was taken away, the file may belong to another process.
        self.check_location(false)?;
        if self
            .token
            .as_ref()
            .is_some_and(|token| !token.is_older_slot_known)
        {
            self.repeat_header()?;
        }
        let mut plan = self.plan();
        if self.token.as_ref().is_some_and(|token| token.has_holes) && plan.reserve() > 0 {
            let full = io::ErrorKind::StorageFull.into();
            return self.force_on_a_full_disk(self.no_space(plan.bytes(), full));
        }
        let mut state = self.store.lock();
        if planted!("freed-page-reused-early") {
            for place in plan.freed.drain(..) {
                state.places.free(place..place + 1);
            }
        }
        let places = state.places.take(plan.len());
        let places_end = state.places.end();
        let written_end = state.places.end_for(plan.reserve(), self.written_places());
        drop(state);
        let layout = Layout {
            places,
            places_end,
            written_end,
            is_full: false,
        };
        match self.carry_out(plan, layout) {
            Err(Trouble::NoSpace(error)) if !planted!("cow-full-disk-wedges") => {
                self.force_on_a_full_disk(error)
            }
            forced => forced,
        }
    }

    /// Returns the difference between the current header's state and the one that is to become durable.
    pub(super) fn plan(&self) -> WritePlan {
        let medium = &self.store.medium;
        let mut plan = WritePlan::new(medium, medium.page_size, &self.from.tree, &self.to.tree);
        // Freed small pages share granules with pages in use. Overwriting or discarding such pages one by one
        // would use up the reserve. Dropping pages from the end is sure to give space back.
        let shares_granules = self.store.lock().places.granule() > 1;
        plan.leaves_reserve = shares_granules && self.to.page_count >= self.from.page_count;
        plan
    }

    /// Returns the number of places for which the file is long enough.
    pub(super) fn written_places(&self) -> u64 {
        let len = self.token.as_ref().map_or(0, |token| token.len);
        len.saturating_sub(PAGE_DATA_OFFSET) / u64::from(self.store.medium.page_size)
    }

    /// Writes a plan to its places and makes it durable. Then writes the header that refers to it.
    pub(super) fn carry_out(
        &mut self,
        mut plan: WritePlan,
        layout: Layout,
    ) -> std::result::Result<Written, Trouble> {
        let medium = &self.store.medium;
        let (freed, need) = (std::mem::take(&mut plan.freed), plan.bytes());
        let Some(mut placed) = plan.place(&layout.places, medium.checksums) else {
            let error = io::ErrorKind::FileTooLarge.into();
            return Err(self.refused(&layout.places, need, error));
        };
        let header = PageFileHeader {
            page_count: self.to.page_count,
            commit: self.to.commit,
            kind: PageFileKind::CopyOnWrite(CopyOnWriteRoot {
                place: placed.root.map(|at| at.place),
                crc: placed.root.map_or(0, |at| at.crc),
                depth: placed.depth,
                places_end: layout.places_end,
            }),
            ..self.header
        };
        let pieces = std::mem::take(&mut placed.pieces);
        let end = place_offset(medium.page_size, layout.places_end).unwrap_or(u64::MAX);
        let grows = self.token.as_ref().is_some_and(|token| end > token.len);
        if planted!("page-header-before-pages") {
            self.store_header(header, &layout, need)?;
            self.write(pieces, &layout, need)?;
        } else {
            // A crash between the two leaves the previous header, and nothing that it refers to was
            // overwritten.
            self.write(pieces, &layout, need)?;
            self.check_location(grows)?;
            self.store_header(header, &layout, need)?;
        }
        // Fills the cache before anything refers to these places, see `Cache`.
        for (place, image) in &placed.images {
            medium.cache.insert(*place, image.clone());
        }
        let header = self
            .token
            .as_ref()
            .map_or(header, |token| token.slots.header);
        Ok(Written {
            placed,
            freed,
            header,
            was_full: layout.is_full,
        })
    }

    /// Checks that the file is where it was opened, if the check is due or requested `at_once`.
    fn check_location(&mut self, at_once: bool) -> std::result::Result<(), Trouble> {
        let Some(token) = &mut self.token else {
            return Ok(());
        };
        if !at_once && !is_check_due(token.location_checked, self.began) {
            return Ok(());
        }
        token.location_checked = Some(self.began);
        self.store
            .displaced()
            .map_or(Ok(()), |e| Err(Trouble::Fatal(e)))
    }

    /// Writes to free places, and makes the written bytes durable. If the file ends before the last place, it
    /// grows by a step.
    fn write(
        &mut self,
        pieces: Vec<(u64, Image)>,
        layout: &Layout,
        need: u64,
    ) -> std::result::Result<(), Trouble> {
        let (store, medium) = (self.store, &self.store.medium);
        let written = self.written_places();
        let (Some(token), false) = (&mut self.token, pieces.is_empty()) else {
            return Ok(());
        };
        let offset = |places| place_offset(medium.page_size, places).unwrap_or(u64::MAX);
        let (mut through, mut barrier) = (false, Barrier::Full);
        let mut len = token.len.max(offset(layout.places_end));
        let runs = if layout.is_full {
            // A copy-on-write filesystem needs space for each write, so each page is written separately.
            let alone = |(offset, piece)| Run {
                offset,
                pieces: vec![piece],
            };
            pieces.into_iter().map(alone).collect()
        } else if offset(layout.written_end) > token.len {
            // New blocks need metadata of the filesystem as well: one barrier for everything.
            len = next_end(token.len, offset(layout.written_end), medium.page_size);
            let begin = offset(written.max(layout.places_end));
            gather(pieces.into_iter().chain(zeroes(begin..len, &medium.zeroes)))
        } else {
            let runs = gather(pieces);
            let bytes = runs.iter().map(|run| run.len() as u64).sum();
            through = store.forces_by_write_through(runs.len(), bytes);
            barrier = Barrier::Data;
            runs
        };
        match token.write(store, runs, through) {
            Ok(()) => token.len = len,
            // The written bytes lie in free places. They will be overwritten before anything refers to these
            // places.
            Err(e) if cannot_grow(&e) => return Err(self.refused(&layout.places, need, e)),
            Err(e) => return Err(self.fatal("write", e)),
        }
        if through || planted!("cow-barrier-left-out") {
            return Ok(());
        }
        self.barrier(barrier)
    }

    fn barrier(&self, barrier: Barrier) -> std::result::Result<(), Trouble> {
        Counts::add(&self.store.counts.barriers, 1);
        match self.store.medium.file.barrier(barrier) {
            Err(e) if !planted!("cow-failed-barrier-forgotten") => Err(self.fatal("sync", e)),
            _ => Ok(()),
        }
    }

    fn store_header(
        &mut self,
        header: PageFileHeader,
        layout: &Layout,
        need: u64,
    ) -> std::result::Result<(), Trouble> {
        let stored = match &mut self.token {
            Some(token) => token.slots.store(header),
            None => Ok(()),
        };
        match stored {
            Ok(()) => self.header_is_written(),
            Err(e) if cannot_grow(&e) => self.settle_header(header, e, layout, need),
            Err(e) => Err(self.fatal("write the header of", e)),
        }
    }

    /// Settles a refused header, which happens where overwriting takes new space. Reads the slot: either the
    /// header is there and durable, or no crash can bring it there and the commits are refused.
    fn settle_header(
        &mut self,
        header: PageFileHeader,
        error: io::Error,
        layout: &Layout,
        need: u64,
    ) -> std::result::Result<(), Trouble> {
        self.barrier(Barrier::Data)?;
        let settled = match &mut self.token {
            Some(token) => token.slots.settle(header),
            None => Ok(false),
        };
        match settled {
            Ok(true) => {
                Counts::add(&self.store.counts.headers, 1);
                Ok(())
            }
            Ok(false) => {
                let need = need.saturating_add(PAGE_HEADER_LEN as u64);
                Err(self.refused(&layout.places, need, error))
            }
            // The medium cannot be read, so the header that a crash would leave is unknown.
            Err(_) => Err(self.fatal("write the header of", error)),
        }
    }

    /// Writes the current header into the older slot as well. This frees the places that only the header in
    /// that slot referred to, and one lost block no longer loses the last commit.
    pub(super) fn repeat_header(&mut self) -> std::result::Result<(), Trouble> {
        let Some(token) = &mut self.token else {
            return Ok(());
        };
        let header = token.slots.header;
        match token.slots.store(header) {
            Ok(()) => self.header_is_written()?,
            // Whatever the slot holds now, it refers to nothing beyond the two headers.
            Err(e) if cannot_grow(&e) => return Err(self.refused(&[], PAGE_HEADER_LEN as u64, e)),
            Err(e) => return Err(self.fatal("write the header of", e)),
        }
        if let Some(token) = &mut self.token {
            token.is_older_slot_known = true;
            let gone = self.store.lock().publish_again(token.slots.header);
            drop(gone);
        }
        Ok(())
    }

    /// Leads a group without commits: writes the current header into both slots.
    fn lead_nothing(mut self) {
        let mut repeated = self.repeat_header();
        if matches!(repeated, Err(Trouble::NoSpace(_))) && self.give_blocks_back() {
            repeated = self.repeat_header();
        }
        let mut state = self.store.lock();
        let mut ended = vec![self.group.clone()];
        state.groups.end_force();
        self.group.decide(Ok(()));
        if let Err(Trouble::Fatal(error)) = repeated {
            ended.extend(state.fail(error));
        }
        self.give_back(&mut state);
        drop(state);
        self.notify(&ended);
    }

    fn header_is_written(&self) -> std::result::Result<(), Trouble> {
        Counts::add(&self.store.counts.headers, 1);
        Counts::add(&self.store.counts.barriers, 1);
        match self.store.is_write_through_enough {
            true => Ok(()),
            false => self.barrier(Barrier::Data),
        }
    }

    pub(super) fn fatal(&self, doing: &'static str, error: io::Error) -> Trouble {
        Trouble::Fatal(Error::io(doing, &self.store.medium.path)(error))
    }

    /// Frees the places, because there is no space to write there, or the file may not be that long.
    fn refused(&self, places: &[Range<u64>], need: u64, source: io::Error) -> Trouble {
        let mut state = self.store.lock();
        for run in places {
            state.places.free(run.clone());
        }
        drop(state);
        Trouble::NoSpace(self.no_space(need, source))
    }

    fn no_space(&self, need: u64, source: io::Error) -> Error {
        Error::no_space("write", self.store.medium.path.clone(), need, source)
    }

    /// Makes the new header the current one.
    fn publish(&mut self, forced: Written) -> Vec<Arc<CommitGroup>> {
        let version = CommittedState {
            tree: forced.placed.tree(),
            ..self.to
        };
        if planted!("cow-places-published-early") {
            let header = self.store.lock().header_number;
            forced.placed.publish_places(header);
            self.store.runtime().now();
        }
        let mut state = self.store.lock();
        let born = forced.placed.images.iter().map(|(place, _)| *place);
        let gone = state.publish(forced.header, version, born, forced.freed);
        let header = state.header_number;
        drop(state);
        drop(gone);
        // Pages in memory get their places only now that the header is durable, and before the next leader
        // plans with them.
        if planted!("cow-places-published-late") {
            let mut state = self.store.lock();
            self.group.decide(Ok(()));
            self.give_back(&mut state);
            drop(state);
            self.store.runtime().now();
        }
        forced.placed.publish_places(header);
        let mut state = self.store.lock();
        state.note_space(forced.was_full);
        state.groups.end_force();
        self.group.decide(Ok(()));
        self.give_back(&mut state);
        vec![self.group.clone()]
    }

    fn give_back(&mut self, state: &mut State) {
        if let Some(token) = self.token.take() {
            state.token = Some(token);
        }
    }

    /// Wakes threads and tasks. Call without the mutex.
    fn notify(&self, ended: &[Arc<CommitGroup>]) {
        let runtime = self.store.runtime();
        for group in ended {
            group.notify(runtime);
        }
        let open = self.store.lock().groups.open.clone();
        // Any thread that waits for the open group can be the next leader.
        open.done.notify_one(runtime);
        self.store.turn_ended.notify(runtime);
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if self.token.is_none() {
            return;
        }
        // The thread unwinds, so it is unknown what was written.
        let panicked = io::Error::other("the writing thread panicked");
        let error = Error::io("write", &self.store.medium.path)(panicked);
        let mut state = self.store.lock();
        let ended = state.fail(error);
        self.give_back(&mut state);
        drop(state);
        self.notify(&ended);
    }
}
