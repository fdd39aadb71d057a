//! Generations: the commits from one checkpoint to the next. When the open one takes a commit, and when
//! it ends: the pace of commits and checkpoints.

use super::readers::CommitPoint;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result};
use logforce_format::Lsn;

/// The commits since the last checkpoint began: their pages are logged as whole images first.
#[derive(Debug, Default)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Bytes of log that it has filled.
    pub(super) bytes: u64,
    /// Pages changed in it.
    pub(super) pages: Vec<u64>,
    /// Commits that were encoded for it and are being appended.
    appending: usize,
    /// Pages that they change, at most so many bytes of log.
    appending_pages: usize,
    appending_bytes: u64,
    /// It ends as soon as those are appended; new commits wait for the next one.
    is_ending: bool,
}

/// A generation that has ended and is being applied to the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndedGeneration {
    /// The state at its end.
    pub(super) at: CommitPoint,
    /// Pages to write.
    pub(super) pages: usize,
    /// Of those, the pages that are written.
    pub(super) applied: usize,
}

impl Generation {
    pub(super) fn new(number: u64) -> Generation {
        Generation {
            number,
            ..Generation::default()
        }
    }

    /// A commit was encoded for it, which may become so much of the log.
    pub(super) fn append_begins(&mut self, changes: &Changes) {
        self.appending += 1;
        self.appending_pages += changes.pages.len();
        self.appending_bytes += bytes_of(changes);
    }

    /// That commit is in the log, or was given up.
    fn append_ended(&mut self, changes: &Changes) {
        self.appending -= 1;
        self.appending_pages -= changes.pages.len();
        self.appending_bytes -= bytes_of(changes);
    }

    /// With all that is being appended: many threads admitted at once must not fill it many times over.
    fn pages_at_most(&self) -> usize {
        self.pages.len() + self.appending_pages
    }

    fn bytes_at_most(&self) -> u64 {
        self.bytes + self.appending_bytes
    }

    fn is_empty(&self) -> bool {
        self.bytes == 0 && self.appending == 0
    }
}

/// Bytes of log that the changes become at most, but for headers.
fn bytes_of(changes: &Changes) -> u64 {
    let len = |change: &Change| match change {
        Change::Write { image, .. } => image.len() as u64,
        Change::Discard => 0,
    };
    changes.pages.values().map(len).sum()
}

/// Pages that a generation may change whatever the memory: a checkpoint for fewer is not worth its
/// barriers.
const LEAST_GENERATION: usize = 64;

/// Whether a commit may be appended now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Go,
    /// Something has to happen first; notified by the event of progress.
    Wait,
}

/// The generation that takes commits, the one before it, and how far the data file is.
#[derive(Debug)]
pub(super) struct Generations {
    pub(super) open: Generation,
    pub(super) ended: Option<EndedGeneration>,
    /// The pages of `ended`, until the checkpointer takes them.
    pub(super) to_apply: Vec<u64>,
    /// The data file holds every commit that ends at or below, durably, and the log does not.
    pub(super) applied: Lsn,
    /// The log is or will be truncated below: no version may leave memory for there.
    pub(super) front: Lsn,
    /// Why the data file could not be written for now, such as a full disk.
    pub(super) stalled: Option<Error>,
}

impl Generations {
    /// Of a file that holds every commit up to `at`.
    pub(super) fn new(at: Lsn) -> Generations {
        Generations {
            open: Generation::new(1),
            ended: None,
            to_apply: Vec::new(),
            applied: at,
            front: at,
            stalled: None,
        }
    }

    /// Whether the open generation takes a commit now, after the last one that ends at `latest`. It may
    /// end up to one commit above `distance`, or above so many changed `pages`: more would leave memory
    /// before they are applied, and each would be read back with the whole record of its commit.
    ///
    /// The checkpointer sets the pace: the open generation may be about as full as the ended one is
    /// applied, so a commit waits for a few pages often instead of for many of them at the end. It
    /// begins a sixteenth ahead, and three sixteenths are left for when all is written: syncing and
    /// forgetting takes time as well.
    pub(super) fn admit(
        &mut self,
        latest: CommitPoint,
        distance: u64,
        pages: usize,
    ) -> Result<Admission> {
        let pages = pages.max(LEAST_GENERATION) as u128;
        if self.open.is_ending {
            return Ok(Admission::Wait);
        }
        let whole = u128::from(distance);
        let of_memory = whole * self.open.pages_at_most() as u128 / pages;
        let filled = u128::from(self.open.bytes_at_most()).max(of_memory);
        let Some(ended) = self.ended else {
            if filled >= whole {
                self.end(latest);
                return Ok(Admission::Wait);
            }
            return Ok(Admission::Go);
        };
        let (applied, pages) = (ended.applied as u128, ended.pages.max(1) as u128);
        let allowed = match applied < pages {
            true => whole * (12 * applied + pages) / (16 * pages),
            false => whole,
        };
        // The first commit of a generation goes always: it may be larger than all that is allowed.
        if self.open.is_empty() || filled < allowed {
            return Ok(Admission::Go);
        }
        match &self.stalled {
            Some(e) => Err(e.clone()),
            None => Ok(Admission::Wait),
        }
    }

    /// A commit that was encoded for the open generation is in the log, or was given up.
    pub(super) fn appended(&mut self, changes: &Changes, latest: CommitPoint) {
        self.open.append_ended(changes);
        if self.open.is_ending && self.open.appending == 0 {
            self.begin(latest);
        }
    }

    /// Ends the open generation as soon as nothing is being appended: what was encoded for it must lie
    /// in the log before the place where the next one's redo begins.
    pub(super) fn end(&mut self, latest: CommitPoint) {
        if self.ended.is_some() || self.open.is_ending {
            return;
        }
        self.open.is_ending = true;
        if self.open.appending == 0 {
            self.begin(latest);
        }
    }

    fn begin(&mut self, latest: CommitPoint) {
        let number = self.open.number + 1;
        let ended = std::mem::replace(&mut self.open, Generation::new(number));
        self.to_apply = ended.pages;
        self.to_apply.sort_unstable();
        self.ended = Some(EndedGeneration {
            at: latest,
            pages: self.to_apply.len(),
            applied: 0,
        });
    }

    /// The data file holds the ended generation, and its header says so. What is in memory and in the
    /// log of it may go, and the next generation may end.
    pub(super) fn clear_closed(&mut self) {
        self.ended = None;
        self.to_apply = Vec::new();
    }

    /// Whether there is something that a checkpoint would bring into the data file.
    pub(super) fn is_dirty(&self) -> bool {
        let is_finishing = self.applied < self.front;
        is_finishing || self.ended.is_some() || self.open.bytes > 0 || self.open.is_ending
    }

    /// Pages that the log holds and the data file does not.
    pub(super) fn dirty_pages(&self) -> u64 {
        let closed = self.ended.map_or(0, |c| c.pages.saturating_sub(c.applied));
        (closed + self.open.pages.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::state::State;

    #[test]
    fn a_generation_ends_where_its_pages_fill_the_memory() {
        let origin = CommitPoint {
            end: Lsn::ORIGIN,
            commit: 0,
            page_count: 1000,
        };
        let admitted = |changed: u64, room: usize| {
            let mut state = State::new(origin, 0);
            state.generations.open.bytes = 1;
            state.generations.open.pages = (0..changed).collect();
            let admission = state.generations.admit(origin, 1 << 30, room).unwrap();
            assert_eq!(
                state.generations.ended.is_some(),
                admission == Admission::Wait
            );
            admission == Admission::Go
        };
        assert!(admitted(99, 100) && !admitted(100, 100));
        // However little memory there is, a checkpoint is for some pages.
        assert!(admitted(63, 1) && !admitted(64, 1));
    }

    /// Many threads may be appending at once: what they were admitted for counts before it is in the
    /// log.
    #[test]
    fn what_is_being_appended_counts() {
        let origin = CommitPoint {
            end: Lsn::ORIGIN,
            commit: 0,
            page_count: 1000,
        };
        let mut state = State::new(origin, 0);
        let commit = |page: u64| {
            let mut changes = Changes::default();
            let image = vec![0; 4096].into();
            let before = None;
            changes.pages.insert(page, Change::Write { image, before });
            changes
        };
        let mut admitted = Vec::new();
        while state.generations.admit(origin, 40_960, 1 << 20).unwrap() == Admission::Go {
            let changes = commit(admitted.len() as u64);
            state.reserve(&changes);
            admitted.push(changes);
            assert!(admitted.len() < 100);
        }
        assert_eq!(admitted.len(), 10);
        assert!(
            state.generations.ended.is_none(),
            "it ends when all of them have ended"
        );
        for changes in &admitted {
            state.release(changes);
        }
        assert!(state.generations.ended.is_some());
        // The next one is as empty as at the beginning.
        assert_eq!(
            state.generations.admit(origin, 40_960, 1 << 20).unwrap(),
            Admission::Go
        );
    }
}
