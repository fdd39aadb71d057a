//! Data that the mutex of a copy-on-write store guards: memory, and the leader's token with everything that
//! only the leader writes with.

use crate::cow::allocator::Allocator;
use crate::cow::commit_group::{CommitGroup, CommitGroups};
use crate::cow::conflicts::Conflicts;
use crate::cow::reclamation::HeldHeaders;
use crate::cow::standing::{StandingHolds, Wanted};
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

/// Committed state.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommittedState {
    pub(crate) tree: Tree,
    /// Exclusive end of the page numbers.
    pub(crate) page_count: u64,
    /// Number of the last commit in it, or 0 before the first.
    pub(crate) commit: u64,
}

/// Hold of a committed state. The places that the state refers to are not overwritten until the hold ends.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    pub(crate) version: CommittedState,
    pub(crate) header_number: u64,
    /// True if a transaction may be built on the state.
    is_latest: bool,
}

/// Token of the *leader*, the only thread that writes.
pub(crate) struct LeaderToken {
    pub(crate) slots: HeaderSlots,
    pub(crate) writers: Writers,
    /// True if the header in the older slot is known. False if the slots differed at opening and the current
    /// header could not be written into the older slot, for lack of space or because of a lost node. The
    /// places that the older header refers to are then unknown, and nothing is written until that header is
    /// replaced.
    pub(crate) is_older_slot_known: bool,
    /// True if free places may have no blocks, because these were given back or the disk was full. Until the
    /// next opening, a growing commit secures the reserve by writing there.
    pub(crate) has_holes: bool,
    /// Length of the data file in bytes. Writes below it need no new blocks.
    pub(crate) len: u64,
    /// Time of a leader's last check that the files were not displaced, by the runtime's clock.
    pub(crate) location_checked: Option<Duration>,
}

pub(crate) struct State {
    /// Latest committed state.
    pub(crate) latest: CommittedState,
    /// State that the current header refers to.
    pub(crate) durable: CommittedState,
    /// Current header.
    pub(crate) header: PageFileHeader,
    /// Number of the current header, counted since opening.
    pub(crate) header_number: u64,
    /// Number of the next commit. No number is given twice while the file is open, so a number shows if its
    /// commit was rolled back.
    pub(crate) next_commit: u64,
    pub(crate) places: Allocator,
    pub(crate) held_headers: HeldHeaders,
    pub(crate) standing: Arc<StandingHolds<Hold>>,
    pub(crate) conflicts: Conflicts,
    /// Headers in the slots, the older one first: their numbers, and the commits that they make durable.
    slots: VecDeque<(u64, u64)>,
    /// Remaining number of forces in which each commit is forced separately, after a force that reached the
    /// end of the space. Otherwise a commit that fits could be refused because of another.
    alone: u32,
    /// Commits that were rolled back for lack of space, oldest first.
    rolled_back: VecDeque<(Range<u64>, Error)>,
    pub(crate) groups: CommitGroups,
    /// `None` while there is a leader, and after closing.
    pub(crate) token: Option<Box<LeaderToken>>,
    pub(crate) schedule: Schedule,
    /// First failure after which nothing that is written can be trusted.
    pub(crate) failed: Option<Error>,
    pub(crate) is_closed: bool,
}

impl State {
    /// Makes the state of a file whose table was walked.
    pub(crate) fn new(
        version: CommittedState,
        header: PageFileHeader,
        places: Allocator,
        token: Box<LeaderToken>,
    ) -> Self {
        let mut held_headers = HeldHeaders::default();
        // Both header slots hold this state at opening.
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
            standing: Arc::default(),
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

    /// Refuses calls after closing or a failure.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.is_closed {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Refuses changes that are built on a rolled-back commit.
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

    /// Begins a view of the wanted state. Returns its hold, and one that ends for the caller to drop.
    pub(crate) fn hold(&mut self, wanted: Wanted) -> (Arc<Hold>, Option<Hold>) {
        let is_latest = wanted == Wanted::Latest;
        let version = match wanted {
            Wanted::Latest => self.latest.clone(),
            Wanted::Durable => self.durable.clone(),
        };
        if !planted!("cow-view-not-held") {
            self.held_headers.hold(self.header_number);
        }
        if is_latest {
            self.conflicts.hold(version.commit);
        }
        let hold = Arc::new(Hold {
            version,
            header_number: self.header_number,
            is_latest,
        });
        // On a full disk each transaction has to see if a group is in its way.
        if is_latest && self.alone > 0 {
            return (hold, None);
        }
        let replaced = self.standing.keep(wanted, hold.clone());
        let replaced = replaced.and_then(Arc::into_inner);
        (hold, replaced.map(|replaced| self.release(replaced)))
    }

    /// Records that new views get another state, or an error.
    pub(crate) fn views_changed(&self) {
        self.standing.changed();
    }

    /// Ends the standing holds. Returns what the caller drops without the mutex.
    pub(crate) fn end_standing(&mut self) -> Vec<Hold> {
        self.views_changed();
        let ended = self.standing.end().into_iter();
        let ended = ended.filter_map(Arc::into_inner);
        ended.map(|hold| self.release(hold)).collect()
    }

    /// Ends a hold that nothing shares any more. Returns it for the caller to drop without the mutex.
    pub(crate) fn release(&mut self, hold: Hold) -> Hold {
        if !planted!("cow-view-not-held") {
            let places = &mut self.places;
            self.held_headers
                .release(hold.header_number, |place| places.free(place..place + 1));
        }
        if hold.is_latest {
            self.conflicts.release(hold.version.commit);
            let oldest = self.conflicts.oldest();
            while self
                .rolled_back
                .front()
                .is_some_and(|(c, _)| c.end <= oldest)
            {
                self.rolled_back.pop_front();
            }
        }
        hold
    }

    /// Makes a commit the latest one. Returns the state before it, for the caller to drop without the mutex.
    pub(crate) fn committed(&mut self, version: CommittedState) -> CommittedState {
        let before = std::mem::replace(&mut self.latest, version);
        self.views_changed();
        before
    }

    /// Makes a header current that refers to `version`, all of which is in the file. The places `born` are
    /// new in it, and `freed` are the places of the previous header that it no longer has. Returns states
    /// that the caller drops without the mutex.
    pub(crate) fn publish(
        &mut self,
        header: PageFileHeader,
        version: CommittedState,
        born: impl Iterator<Item = u64>,
        freed: Vec<u64>,
    ) -> Gone {
        self.header_number += 1;
        let (header_number, places) = (self.header_number, &mut self.places);
        let mut free = |place| places.free(place..place + 1);
        // The overwritten slot held the header before the last one. The other slot holds the last one, which
        // is current if the header stored now becomes unreadable.
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
            // The state is the same, and now takes no memory.
            true => std::mem::replace(&mut self.latest, version.clone()),
            false => CommittedState::default(),
        };
        let durable = std::mem::replace(&mut self.durable, version);
        ([durable, latest], self.end_standing())
    }

    /// Records that a force has ended, and if it reached the end of the space.
    pub(crate) fn note_space(&mut self, was_full: bool) {
        self.alone = match was_full {
            true => ALONE,
            false => self.alone.saturating_sub(1),
        };
        if was_full {
            self.views_changed();
        }
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
    pub(crate) fn publish_again(&mut self, header: PageFileHeader) -> Gone {
        self.publish(header, self.durable.clone(), std::iter::empty(), Vec::new())
    }

    /// Rolls back everything committed since the last header, because there is no space for it. Returns the
    /// groups that end with this error, and what the caller drops.
    pub(crate) fn roll_back(&mut self, why: &Error) -> (Vec<Arc<CommitGroup>>, Gone) {
        let first = self.durable.commit + 1;
        self.alone = ALONE;
        self.rolled_back
            .push_back((first..self.next_commit, why.clone()));
        self.conflicts.roll_back(self.durable.commit);
        let gone = match planted!("cow-rolled-back-kept") {
            true => CommittedState::default(),
            false => std::mem::replace(&mut self.latest, self.durable.clone()),
        };
        let gone = ([gone, CommittedState::default()], self.end_standing());
        (self.end_groups(Err(why.clone())), gone)
    }

    /// Fails the file: nothing that is written can be trusted from now on.
    pub(crate) fn fail(&mut self, cause: Error) -> Vec<Arc<CommitGroup>> {
        let error = Error::Poisoned(Arc::new(cause));
        let error = self.failed.get_or_insert(error).clone();
        self.views_changed();
        self.end_groups(Err(error))
    }

    fn end_groups(&mut self, outcome: Result<()>) -> Vec<Arc<CommitGroup>> {
        self.schedule.clear();
        self.groups.end(&outcome)
    }
}

/// States and holds that are dropped without the mutex, because freeing their memory may take long.
pub(crate) type Gone = ([CommittedState; 2], Vec<Hold>);

/// Schedule of the background force: its requests, and the usual duration of a force.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Time at which the force has to begin, by the runtime's clock.
    deadline: Option<Duration>,
    /// True if a caller waits for a commit and leaves the force to the background thread.
    is_wanted: bool,
    /// Moving average of the duration of a force.
    usual_force: Option<Duration>,
}

impl Schedule {
    /// Returns true if the force has to begin now, and the time left until the deadline.
    pub(crate) fn is_due(&self, now: Duration) -> (bool, Option<Duration>) {
        let is_due = self.is_wanted || self.deadline.is_some_and(|at| at <= now);
        (is_due, self.deadline.map(|at| at.saturating_sub(now)))
    }

    /// Requests a force at once, for a caller that waits. Returns true if the thread must be notified.
    pub(crate) fn want(&mut self) -> bool {
        !std::mem::replace(&mut self.is_wanted, true)
    }

    /// Requests that commits are durable `within` of `now`. Returns true if the thread must be notified.
    pub(crate) fn force_by(&mut self, now: Duration, within: Duration) -> bool {
        // Begins early enough to be done in time. Before the first force its duration is unknown.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(4).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let is_sooner = self.deadline.is_none_or(|deadline| begin < deadline);
        if is_sooner {
            self.deadline = Some(begin);
        }
        is_sooner
    }

    /// Clears the requests: everything requested is being forced, is durable, or was given up.
    pub(crate) fn clear(&mut self) {
        self.deadline = None;
        self.is_wanted = false;
    }

    /// Adds the duration of a force to the average.
    pub(crate) fn note_force(&mut self, took: Duration) {
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }
}
