//! The force of a copy-on-write file: one leader at a time writes the new pages to free places, by
//! write-through or followed by a barrier (`forces_by_write_through`), and only then, durably, the
//! header that reaches them.

use crate::changes::Image;
use crate::cow::commit_group::CommitGroup;
use crate::cow::location::is_check_due;
use crate::cow::plan::{Placed, Plan};
use crate::cow::state::{CommittedState, LeaderToken, State};
use crate::cow::store::{Counts, CowStore};
use crate::error::{Error, Result, is_no_space};
use crate::growth::{next_end, zeroes};
use crate::write_out::{Run, gather};
use logforce_device::Barrier;
use logforce_format::{CopyOnWriteRoot, PageFileHeader, PageFileKind, place_offset, planted};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The thread that writes. Whatever becomes of it, the next one gets the token.
struct Leader<'a> {
    store: &'a CowStore,
    /// `None` once it was given back.
    token: Option<Box<LeaderToken>>,
    group: Arc<CommitGroup>,
    from: CommittedState,
    to: CommittedState,
    header: PageFileHeader,
}

impl LeaderToken {
    fn write(&self, store: &CowStore, runs: Vec<Run>, through: bool) -> io::Result<()> {
        let bytes = runs.iter().map(|run| run.len() as u64).sum();
        Counts::add(&store.counts.writes, runs.len() as u64);
        Counts::add(&store.counts.bytes_written, bytes);
        self.writers.write(runs, through)
    }
}

/// Why a force failed.
enum Trouble {
    /// There is no space for what it writes, and nothing was written over: the file goes on without
    /// these commits.
    NoSpace(Error),
    /// What is on the medium is not known any more.
    Fatal(Error),
}

/// What a force has written.
struct Written {
    placed: Placed,
    freed: Vec<u64>,
    header: PageFileHeader,
}

impl CowStore {
    /// Makes everything committed durable.
    pub(crate) fn force(&self) -> Result<()> {
        self.check_process()?;
        self.lock().check()?;
        self.force_all()?;
        // A checkpoint in files that were taken away is one that no opening finds.
        self.check_location()
    }

    /// As [`CowStore::force`], also when it is being closed.
    pub(crate) fn force_all(&self) -> Result<()> {
        let group = self.lock().groups.last();
        if let Some(group) = group {
            self.wait_for(&group)?;
        }
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        // Somebody has to learn of commits that were accepted and rolled back.
        state.groups.take_unreported()
    }

    /// Waits for the outcome of a group, and leads it if nobody does.
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

    /// Whether to force runs by writing them through, each durable by itself, rather than by a barrier
    /// after all of them.
    ///
    /// A barrier costs a flush of the device's cache, whatever was written. A write through costs about
    /// the same once for each run, and several are in flight; where the device writes through natively
    /// it is cheaper for few bytes. So there is a crossover, in runs and in bytes, which depends on the
    /// device: [`WriteThroughLimit`](crate::WriteThroughLimit), from a measurement if there is one.
    /// Only where a write through is worth as much as a barrier.
    fn forces_by_write_through(&self, runs: usize, bytes: u64) -> bool {
        self.is_write_through_enough
            && runs <= self.write_through.runs
            && bytes <= self.write_through.bytes
    }
}

impl<'a> Leader<'a> {
    /// Takes the leader's token, if it is there, and everything committed so far.
    fn begin(store: &'a CowStore, state: &mut State) -> Option<Leader<'a>> {
        let token = state.token.take()?;
        let group = state.groups.begin_force();
        // All that was asked for is in this group.
        state.schedule.clear();
        Some(Leader {
            store,
            token: Some(token),
            group,
            from: state.durable.clone(),
            to: state.latest.clone(),
            header: state.header,
        })
    }

    fn lead(mut self) {
        let began = self.store.runtime().now();
        let ended = match self.force(began) {
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
        let took = self.store.runtime().now().saturating_sub(began);
        self.store.lock().schedule.note_force(took);
        self.notify(&ended);
    }

    /// Writes what is new, forces it, then the header that reaches it.
    fn force(&mut self, now: Duration) -> std::result::Result<Written, Trouble> {
        let store = self.store;
        // Before anything is written: where the lock was taken away, the file may be another process'.
        self.check_location(now, false)?;
        let medium = &store.medium;
        let mut plan = Plan::new(medium, medium.page_size, &self.from.tree, &self.to.tree);
        let mut freed = std::mem::take(&mut plan.freed);
        let bytes = plan.bytes();
        let mut state = store.lock();
        if planted!("freed-page-reused-early") {
            for place in freed.drain(..) {
                state.places.free(place..place + 1);
            }
        }
        let places = state.places.take(plan.len());
        let places_end = state.places.end();
        drop(state);
        let Some(mut placed) = plan.place(&places, medium.checksums) else {
            let error = io::ErrorKind::FileTooLarge.into();
            return Err(self.no_space(&places, bytes, error));
        };
        let header = PageFileHeader {
            page_count: self.to.page_count,
            commit: self.to.commit,
            kind: PageFileKind::CopyOnWrite(CopyOnWriteRoot {
                place: placed.root.map(|at| at.place),
                crc: placed.root.map_or(0, |at| at.crc),
                depth: placed.depth,
                places_end,
            }),
            ..self.header
        };
        let pieces = std::mem::take(&mut placed.pieces);
        let end = place_offset(medium.page_size, places_end).unwrap_or(u64::MAX);
        let grows = self.token.as_ref().is_some_and(|token| end > token.len);
        if planted!("page-header-before-pages") {
            self.store_header(header)?;
            self.write(pieces, places_end, &places)?;
        } else {
            // A crash between the two leaves the header before, and nothing that it reaches was
            // written over.
            self.write(pieces, places_end, &places)?;
            self.check_location(now, grows)?;
            self.store_header(header)?;
        }
        // Before anything reaches these places, see `Cache`.
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
        })
    }

    /// Checks that the file is where it was opened, if that is due or to be done `at_once`.
    fn check_location(&mut self, now: Duration, at_once: bool) -> std::result::Result<(), Trouble> {
        let Some(token) = &mut self.token else {
            return Ok(());
        };
        if !at_once && !is_check_due(token.location_checked, now) {
            return Ok(());
        }
        token.location_checked = Some(now);
        self.store
            .displaced()
            .map_or(Ok(()), |e| Err(Trouble::Fatal(e)))
    }

    /// Writes to places that nothing reaches, and makes what it wrote durable. All places lie below
    /// `places_end`: if the file ends before that, it grows by a step.
    fn write(
        &mut self,
        pieces: Vec<(u64, Image)>,
        places_end: u64,
        places: &[Range<u64>],
    ) -> std::result::Result<(), Trouble> {
        let (store, medium) = (self.store, &self.store.medium);
        let (Some(token), false) = (&mut self.token, pieces.is_empty()) else {
            return Ok(());
        };
        let end = place_offset(medium.page_size, places_end).unwrap_or(u64::MAX);
        let mut runs = gather(pieces.iter().cloned());
        let bytes = runs.iter().map(|run| run.len() as u64).sum();
        let mut through = store.forces_by_write_through(runs.len(), bytes);
        let mut barrier = Barrier::Data;
        if end > token.len {
            // New blocks need records of the filesystem as well: one barrier for all.
            (through, barrier) = (false, Barrier::Full);
            let target = next_end(token.len, end, medium.page_size);
            let zeroes = zeroes(end..target, &medium.zeroes);
            let grown = gather(pieces.into_iter().chain(zeroes));
            match token.write(store, grown, false) {
                Ok(()) => {
                    token.len = target;
                    runs.clear();
                }
                // There may be enough for the pages alone.
                Err(e) if is_no_space(&e) => {}
                Err(e) => return Err(self.fatal("write", e)),
            }
        }
        match token.write(store, runs, through) {
            Ok(()) => token.len = token.len.max(end),
            // What was written of it lies where nothing is, and will be written again before
            // anything is.
            Err(e) if is_no_space(&e) => return Err(self.no_space(places, bytes, e)),
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

    fn store_header(&mut self, header: PageFileHeader) -> std::result::Result<(), Trouble> {
        let stored = match &mut self.token {
            Some(token) => token.slots.store(header),
            None => Ok(()),
        };
        stored.map_err(|e| self.fatal("write the header of", e))?;
        Counts::add(&self.store.counts.headers, 1);
        Counts::add(&self.store.counts.barriers, 1);
        match self.store.is_write_through_enough {
            true => Ok(()),
            false => self.barrier(Barrier::Data),
        }
    }

    fn fatal(&self, doing: &'static str, error: io::Error) -> Trouble {
        Trouble::Fatal(Error::io(doing, &self.store.medium.path)(error))
    }

    fn no_space(&self, places: &[Range<u64>], need: u64, source: io::Error) -> Trouble {
        let mut state = self.store.lock();
        for run in places {
            state.places.free(run.clone());
        }
        Trouble::NoSpace(Error::NoSpace {
            path: self.store.medium.path.clone(),
            need,
            source: Arc::new(source),
        })
    }

    /// The new header is the current one.
    fn publish(&mut self, forced: Written) -> Vec<Arc<CommitGroup>> {
        let version = CommittedState {
            tree: forced.placed.tree(),
            ..self.to
        };
        if planted!("cow-places-published-early") {
            forced.placed.publish_places();
            self.store.runtime().now();
        }
        let mut state = self.store.lock();
        let born = forced.placed.images.iter().map(|(place, _)| *place);
        let gone = state.publish(forced.header, version, born, forced.freed);
        drop(state);
        drop(gone);
        // Pages in memory learn their places only now that the header is durable, and before the next
        // leader plans with them.
        if planted!("cow-places-published-late") {
            let mut state = self.store.lock();
            self.group.decide(Ok(()));
            self.give_back(&mut state);
            drop(state);
            self.store.runtime().now();
        }
        forced.placed.publish_places();
        let mut state = self.store.lock();
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

    /// Without the mutex: it wakes threads and tasks.
    fn notify(&self, ended: &[Arc<CommitGroup>]) {
        let runtime = self.store.runtime();
        for group in ended {
            group.notify(runtime);
        }
        let open = self.store.lock().groups.open.clone();
        // Any of those that wait for it can be the next leader.
        open.done.notify_one(runtime);
        self.store.turn_ended.notify(runtime);
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if self.token.is_none() {
            return;
        }
        // It unwinds: nobody knows what was written.
        let panicked = io::Error::other("the thread that wrote panicked");
        let error = Error::io("write", &self.store.medium.path)(panicked);
        let mut state = self.store.lock();
        let ended = state.fail(error);
        self.give_back(&mut state);
        drop(state);
        self.notify(&ended);
    }
}
