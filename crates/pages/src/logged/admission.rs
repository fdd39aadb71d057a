//! Generations: the commits from one checkpoint to the next. They set the pace of commits and checkpoints:
//! when the open generation takes a commit, and when it ends.

use super::readers::CommitPoint;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result};
use logforce_format::Lsn;

/// Commits since the last checkpoint began. The first change of a page in a generation is logged as a whole
/// image.
#[derive(Debug, Default)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Bytes of log that the generation has filled.
    pub(super) bytes: u64,
    /// Pages changed in the generation.
    pub(super) pages: Vec<u64>,
    /// Number of commits that were encoded for the generation and are being appended.
    appending: usize,
    /// Number of pages that these commits change, and maximum bytes of log that they take.
    appending_pages: usize,
    appending_bytes: u64,
    /// True if the generation ends as soon as those are appended. New commits wait for the next generation.
    is_ending: bool,
}

/// Generation that has ended and is being applied to the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndedGeneration {
    /// State at the end of the generation.
    pub(super) at: CommitPoint,
    /// Number of pages to write.
    pub(super) pages: usize,
    /// Number of those pages that are written.
    pub(super) applied: usize,
}

impl Generation {
    pub(super) fn new(number: u64) -> Generation {
        Generation {
            number,
            ..Generation::default()
        }
    }

    /// Records that a commit was encoded for the generation, with the most log that it may take.
    pub(super) fn append_begins(&mut self, changes: &Changes) {
        self.appending += 1;
        self.appending_pages += changes.pages.len();
        self.appending_bytes += bytes_of(changes);
    }

    /// Records that such a commit is in the log, or was given up.
    fn append_ended(&mut self, changes: &Changes) {
        self.appending -= 1;
        self.appending_pages -= changes.pages.len();
        self.appending_bytes -= bytes_of(changes);
    }

    /// Returns the number of changed pages, including everything that is being appended. Otherwise many
    /// threads that are admitted at once could fill the generation many times over.
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

/// Returns the maximum bytes of log of the changes, without headers.
fn bytes_of(changes: &Changes) -> u64 {
    let len = |change: &Change| match change {
        Change::Write { image, .. } => image.len() as u64,
        Change::Discard => 0,
    };
    changes.pages.values().map(len).sum()
}

/// Number of pages that a generation may change even if there is little memory. A checkpoint for fewer pages
/// would not justify its barriers.
const LEAST_GENERATION: usize = 64;

/// Decision on a commit that is to be appended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Go,
    /// The commit has to wait until it is notified of progress.
    Wait,
}

/// Generation that takes commits, the one before it, and the progress of the data file.
#[derive(Debug)]
pub(super) struct Generations {
    pub(super) open: Generation,
    pub(super) ended: Option<EndedGeneration>,
    /// Pages of `ended`, until the checkpointer takes them.
    pub(super) to_apply: Vec<u64>,
    /// End of the commits that the data file holds durably and that the log no longer holds.
    pub(super) applied: Lsn,
    /// LSN below which the log is or will be truncated. No version may leave memory for the log below it.
    pub(super) front: Lsn,
    /// Reason why the data file could not be written for now, such as a full disk.
    pub(super) stalled: Option<Error>,
}

impl Generations {
    /// Makes the generations of a file that holds every commit up to `at`.
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

    /// Decides if the open generation takes a commit now. The last commit ends at `latest`. The generation
    /// may exceed `distance` bytes of log, or `pages` changed pages, by one commit. With more pages, versions
    /// would leave memory before they are applied, and each would be read back with the whole record of its
    /// commit.
    ///
    /// The checkpointer sets the pace: the open generation may be about as full as the ended one is applied.
    /// So a commit often waits for a few pages, instead of for many of them at the end. The open generation
    /// begins a sixteenth ahead. Three sixteenths are left for when all pages are written, because syncing
    /// and forgetting take time as well.
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
        // `filled` does not include the new commit. So the first commit of a generation is always admitted,
        // even if it is larger than everything allowed.
        if self.open.is_empty() || filled < allowed {
            return Ok(Admission::Go);
        }
        match &self.stalled {
            Some(e) => Err(e.clone()),
            None => Ok(Admission::Wait),
        }
    }

    /// Records that a commit encoded for the open generation is in the log, or was given up.
    pub(super) fn appended(&mut self, changes: &Changes, latest: CommitPoint) {
        self.open.append_ended(changes);
        if self.open.is_ending && self.open.appending == 0 {
            self.begin(latest);
        }
    }

    /// Ends the open generation as soon as nothing is being appended. Everything encoded for it must be in
    /// the log before the position at which the next generation's redo begins.
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

    /// Records that the data file holds the ended generation and that the header says so. Its versions in
    /// memory and its part of the log may go, and the next generation may end.
    pub(super) fn clear_closed(&mut self) {
        self.ended = None;
        self.to_apply = Vec::new();
    }

    /// Returns true if a checkpoint would bring anything into the data file.
    pub(super) fn is_dirty(&self) -> bool {
        let is_finishing = self.applied < self.front;
        is_finishing || self.ended.is_some() || self.open.bytes > 0 || self.open.is_ending
    }

    /// Returns the number of pages that the log holds and the data file does not.
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
        // Even with little memory, a checkpoint covers some pages.
        assert!(admitted(63, 1) && !admitted(64, 1));
    }

    /// Commits that are being appended count before they are in the log, because many threads may append at
    /// once.
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
            "it ends only when all appends have ended"
        );
        for changes in &admitted {
            state.release(changes);
        }
        assert!(state.generations.ended.is_some());
        // The next generation is as empty as the first one was.
        assert_eq!(
            state.generations.admit(origin, 40_960, 1 << 20).unwrap(),
            Admission::Go
        );
    }
}
