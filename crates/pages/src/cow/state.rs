//! What the mutex of a copy-on-write store guards: memory, and the leader's token, which holds what
//! only the leader writes with.

use crate::cow::allocator::Allocator;
use crate::cow::commit_group::{CommitGroup, CommitGroups};
use crate::cow::conflicts::Conflicts;
use crate::cow::reclamation::HeldHeaders;
use crate::cow::tree::Tree;
use crate::error::{Error, Result};
use crate::header::HeaderSlots;
use logforce_device::write_out::Writers;
use logforce_format::{PageFileHeader, planted};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of forces without lack of space after which commits share a force again.
const ALONE: u32 = 64;

/// A committed state.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommittedState {
    pub(crate) tree: Tree,
    /// Pages have numbers below this one.
    pub(crate) page_count: u64,
    /// The last commit in it; 0 before the first.
    pub(crate) commit: u64,
}

/// What only the thread has that writes: one at a time, the *leader*.
pub(crate) struct LeaderToken {
    pub(crate) slots: HeaderSlots,
    pub(crate) writers: Writers,
    /// The header in the older slot is known. `false` if the slots differed at opening and it could not write
    /// the header into the older slot, for lack of space or because of a lost node. The places that the older
    /// header reaches are then unknown, and nothing is written until that header was replaced.
    pub(crate) is_older_slot_known: bool,
    /// Free places may have no blocks, because those were given back or the disk was full. Until the next
    /// opening, a growing commit secures the reserve by writing there.
    pub(crate) has_holes: bool,
    /// Bytes of the data file: what is written below needs no new blocks.
    pub(crate) len: u64,
    /// Time of the last check by a leader that the files are where they were opened, by the runtime's clock.
    pub(crate) location_checked: Option<Duration>,
}

pub(crate) struct State {
    /// Everything committed.
    pub(crate) latest: CommittedState,
    /// What the current header reaches.
    pub(crate) durable: CommittedState,
    /// That header.
    pub(crate) header: PageFileHeader,
    /// The number of that header, counted since opening.
    pub(crate) header_number: u64,
    /// The number of the next commit. None is given twice while the file is open, so a number tells
    /// whether its commit was rolled back.
    pub(crate) next_commit: u64,
    pub(crate) places: Allocator,
    pub(crate) held_headers: HeldHeaders,
    pub(crate) conflicts: Conflicts,
    /// Headers that the slots hold, the older one first: their numbers, and the commits that they make
    /// durable.
    slots: VecDeque<(u64, u64)>,
    /// Remaining number of forces, after one that met the end of the space, for which each commit is forced
    /// separately. Otherwise a commit that fits could be refused because of another.
    alone: u32,
    /// Commits that were rolled back for lack of space, oldest first.
    rolled_back: VecDeque<(Range<u64>, Error)>,
    pub(crate) groups: CommitGroups,
    /// `None` while there is a leader, and after closing.
    pub(crate) token: Option<Box<LeaderToken>>,
    pub(crate) schedule: Schedule,
    /// The first failure after which nothing that is written may be believed.
    pub(crate) failed: Option<Error>,
    pub(crate) is_closed: bool,
}

impl State {
    /// That of a file whose table was walked.
    pub(crate) fn new(
        version: CommittedState,
        header: PageFileHeader,
        places: Allocator,
        token: Box<LeaderToken>,
    ) -> Self {
        let mut held_headers = HeldHeaders::default();
        // Both header slots hold this state since it was opened.
        held_headers.hold(0);
        held_headers.hold(0);
        State {
            latest: version.clone(),
            next_commit: version.commit + 1,
            durable: version.clone(),
            header,
            header_number: 0,
            places,
            held_headers,
            conflicts: Conflicts::default(),
            slots: [(0, version.commit); 2].into(),
            alone: 0,
            rolled_back: VecDeque::new(),
            groups: CommitGroups::default(),
            token: Some(token),
            schedule: Schedule::default(),
            failed: None,
            is_closed: false,
        }
    }

    /// Refuses what comes after closing or a failure.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.is_closed {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Refuses what is built on a commit that was rolled back.
    pub(crate) fn check_base(&self, commit: u64) -> Result<()> {
        if planted!("cow-rolled-back-base") {
            return Ok(());
        }
        let gone = self.rolled_back.iter().find(|(c, _)| c.contains(&commit));
        match gone {
            Some((_, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// A view begins. `is_latest`: a transaction may be built on it.
    pub(crate) fn hold(&mut self, version: &CommittedState, is_latest: bool) -> u64 {
        if !planted!("cow-view-not-held") {
            self.held_headers.hold(self.header_number);
        }
        if is_latest {
            self.conflicts.hold(version.commit);
        }
        self.header_number
    }

    /// A view ends.
    pub(crate) fn release(&mut self, header_number: u64, commit: Option<u64>) {
        if !planted!("cow-view-not-held") {
            let places = &mut self.places;
            self.held_headers
                .release(header_number, |place| places.free(place..place + 1));
        }
        if let Some(commit) = commit {
            self.conflicts.release(commit);
            let oldest = self.conflicts.oldest();
            while self
                .rolled_back
                .front()
                .is_some_and(|(c, _)| c.end <= oldest)
            {
                self.rolled_back.pop_front();
            }
        }
    }

    /// A header is current that reaches `version`, all of which is in the file: the places `born`
    /// are new in it, and `freed` are those that the one before has and it has not. Gives what the
    /// caller drops, without the mutex.
    pub(crate) fn publish(
        &mut self,
        header: PageFileHeader,
        version: CommittedState,
        born: impl Iterator<Item = u64>,
        freed: Vec<u64>,
    ) -> [CommittedState; 2] {
        self.header_number += 1;
        let (header_number, places) = (self.header_number, &mut self.places);
        let mut free = |place| places.free(place..place + 1);
        // The slot that was overwritten held the header before the last one. The other one holds
        // the last: should what was stored now get unreadable, that one is current.
        self.slots.push_back((header_number, version.commit));
        self.held_headers.hold(header_number);
        let kept = if planted!("cow-older-slot-forgotten") {
            1
        } else {
            2
        };
        while self.slots.len() > kept {
            if let Some((overwritten, _)) = self.slots.pop_front() {
                self.held_headers.release(overwritten, &mut free);
            }
        }
        self.held_headers.note_births(header_number, born);
        for place in freed {
            self.held_headers.retire(place, header_number, &mut free);
        }
        self.header = header;
        let latest = match self.latest.commit == version.commit {
            // The same state, and now it takes no memory.
            true => std::mem::replace(&mut self.latest, version.clone()),
            false => CommittedState::default(),
        };
        [std::mem::replace(&mut self.durable, version), latest]
    }

    /// Records that a force has ended, and whether it met the end of the space.
    pub(crate) fn note_space(&mut self, was_full: bool) {
        self.alone = match was_full {
            true => ALONE,
            false => self.alone.saturating_sub(1),
        };
    }

    /// Returns the group whose outcome a transaction must wait for before it begins or commits, because the
    /// disk is full.
    pub(crate) fn in_the_way(&self) -> Option<Arc<CommitGroup>> {
        match self.alone {
            0 => None,
            _ => self.groups.last(),
        }
    }

    /// Returns true if the older slot holds a header from before this commit, which is durable.
    pub(crate) fn has_one_header_of(&self, commit: u64) -> bool {
        self.slots.front().is_some_and(|(_, held)| *held < commit)
    }

    /// Returns true if writing the current header into both slots frees places.
    pub(crate) fn older_slot_keeps_places(&self) -> bool {
        let older = self.slots.front();
        older.is_some_and(|(number, _)| self.held_headers.is_waited_for(*number))
    }

    /// Records that the current header is in both slots. Returns states that the caller drops without the
    /// mutex.
    pub(crate) fn publish_again(&mut self, header: PageFileHeader) -> [CommittedState; 2] {
        self.publish(header, self.durable.clone(), std::iter::empty(), Vec::new())
    }

    /// Rolls back everything committed since the last header: there is no space for it. Gives the
    /// groups that end so, and what the caller drops.
    pub(crate) fn roll_back(&mut self, why: &Error) -> (Vec<Arc<CommitGroup>>, CommittedState) {
        let first = self.durable.commit + 1;
        self.alone = ALONE;
        self.rolled_back
            .push_back((first..self.next_commit, why.clone()));
        self.conflicts.roll_back(self.durable.commit);
        let gone = match planted!("cow-rolled-back-kept") {
            true => CommittedState::default(),
            false => std::mem::replace(&mut self.latest, self.durable.clone()),
        };
        (self.end_groups(Err(why.clone())), gone)
    }

    /// Nothing that is written may be believed from now on.
    pub(crate) fn fail(&mut self, cause: Error) -> Vec<Arc<CommitGroup>> {
        let error = Error::Poisoned(Arc::new(cause));
        let error = self.failed.get_or_insert(error).clone();
        self.end_groups(Err(error))
    }

    fn end_groups(&mut self, outcome: Result<()>) -> Vec<Arc<CommitGroup>> {
        self.schedule.clear();
        self.groups.end(&outcome)
    }
}

/// State of the background force: its request and the duration of one.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Time at which it has to begin, by the runtime's clock.
    deadline: Option<Duration>,
    /// Somebody waits, and leaves the force to it.
    is_wanted: bool,
    /// Moving average of what a force takes.
    usual_force: Option<Duration>,
}

impl Schedule {
    /// Returns whether it has to begin now, and how long it may sleep otherwise.
    pub(crate) fn is_due(&self, now: Duration) -> (bool, Option<Duration>) {
        let is_due = self.is_wanted || self.deadline.is_some_and(|at| at <= now);
        (is_due, self.deadline.map(|at| at.saturating_sub(now)))
    }

    /// Somebody waits. Returns whether the thread has to be told.
    pub(crate) fn want(&mut self) -> bool {
        !std::mem::replace(&mut self.is_wanted, true)
    }

    /// Makes commits durable `within` of `now`. Returns whether the thread has to be
    /// told.
    pub(crate) fn force_by(&mut self, now: Duration, within: Duration) -> bool {
        // In time to be done by then. Before the first force nobody knows how long one takes.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(4).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let is_sooner = self.deadline.is_none_or(|deadline| begin < deadline);
        if is_sooner {
            self.deadline = Some(begin);
        }
        is_sooner
    }

    /// Everything that was asked for is being forced, or is durable, or was given up.
    pub(crate) fn clear(&mut self) {
        self.deadline = None;
        self.is_wanted = false;
    }

    /// Adds what a force took to the average.
    pub(crate) fn note_force(&mut self, took: Duration) {
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }
}
