//! Conflicts between transactions: the commits that changed each page last.

use crate::changes::Changes;
use logforce_format::Resize;
use std::collections::{BTreeMap, VecDeque};

/// Commits since the oldest state on which a transaction may still be built.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    /// Number of views of the state after each commit.
    views: BTreeMap<u64, usize>,
    /// Last commit that wrote or dropped each page.
    last: BTreeMap<u64, u64>,
    /// Changes of each commit, oldest first.
    commits: VecDeque<Done>,
    /// Number of pages in `commits`.
    tracked: usize,
    /// Last forgotten commit. A transaction that began before it conflicts, whatever it changes.
    floor: u64,
}

#[derive(Debug)]
struct Done {
    commit: u64,
    pages: Vec<u64>,
    /// Change of the number of pages.
    resize: Resize,
}

/// Maximum number of remembered pages, at some 50 bytes each. A view that is held for longer can only be
/// read: a commit that is built on it conflicts.
const MOST_TRACKED: usize = 1 << 20;

impl Conflicts {
    /// Records that a transaction may be built on the state after this commit.
    pub(crate) fn hold(&mut self, commit: u64) {
        *self.views.entry(commit).or_default() += 1;
    }

    /// Ends one hold.
    pub(crate) fn release(&mut self, commit: u64) {
        match self.views.get_mut(&commit) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.views.remove(&commit);
                let oldest = self.oldest();
                self.forget(oldest);
            }
        }
    }

    /// Returns the oldest commit on which a transaction may be built. Later transactions are built on later
    /// commits.
    pub(crate) fn oldest(&self) -> u64 {
        self.views
            .first_key_value()
            .map_or(u64::MAX, |(commit, _)| *commit)
    }

    /// Returns a page that both these changes and a commit after `base` change. The changes were built on the
    /// state after `base`.
    pub(crate) fn find(&self, base: u64, changes: &Changes) -> Option<u64> {
        let first = changes.pages.keys().next().copied();
        if base < self.floor {
            return Some(first.unwrap_or(changes.resize.at_least));
        }
        let written = |page: &u64| self.last.get(page).is_some_and(|commit| *commit > base);
        if let Some(page) = changes.pages.keys().find(|page| written(page)) {
            return Some(*page);
        }
        let after = || self.commits.iter().rev().take_while(|c| c.commit > base);
        // These changes write pages that another commit has dropped, together with all above.
        let cut = after().map(|c| c.resize.drop_from).min();
        if let (Some(cut), Some(last)) = (cut, changes.pages.keys().next_back())
            && *last >= cut
        {
            return changes.pages.range(cut..).next().map(|(page, _)| *page);
        }
        // These changes drop pages that another commit has written.
        if let Some(end) = changes.end() {
            let mut above = self.last.range(end..);
            if let Some((page, _)) = above.find(|(_, commit)| **commit > base) {
                return Some(*page);
            }
        }
        // Both set the end of the file.
        if changes.resize == Resize::NONE {
            return None;
        }
        let other = after().find(|c| c.resize != Resize::NONE);
        other.map(|other| other.resize.at_least.min(changes.resize.at_least))
    }

    /// Remembers the changes of a commit.
    pub(crate) fn record(&mut self, commit: u64, changes: &Changes) {
        if self.views.is_empty() {
            return;
        }
        let pages: Vec<u64> = changes.pages.keys().copied().collect();
        self.last.extend(pages.iter().map(|page| (*page, commit)));
        self.tracked += pages.len();
        self.commits.push_back(Done {
            commit,
            pages,
            resize: changes.resize,
        });
        while self.tracked > MOST_TRACKED
            && let Some(oldest) = self.commits.front()
        {
            self.floor = oldest.commit;
            self.forget(self.floor);
        }
    }

    /// Forgets the commits above `commit`, which were rolled back.
    pub(crate) fn roll_back(&mut self, commit: u64) {
        // Otherwise no new transaction could commit, if one of them was forgotten.
        self.floor = self.floor.min(commit);
        while self.commits.back().is_some_and(|done| done.commit > commit) {
            let taken = self.commits.pop_back();
            self.tracked -= taken.map_or(0, |done| done.pages.len());
        }
        self.last.clear();
        for done in &self.commits {
            self.last
                .extend(done.pages.iter().map(|page| (*page, done.commit)));
        }
    }

    /// Forgets the commits up to `up_to`.
    fn forget(&mut self, up_to: u64) {
        while self
            .commits
            .front()
            .is_some_and(|done| done.commit <= up_to)
        {
            let Some(done) = self.commits.pop_front() else {
                return;
            };
            self.tracked -= done.pages.len();
            for page in done.pages {
                if self.last.get(&page) == Some(&done.commit) {
                    self.last.remove(&page);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Change;

    fn pages(numbers: &[u64]) -> Changes {
        Changes {
            pages: numbers.iter().map(|n| (*n, Change::Discard)).collect(),
            ..Changes::default()
        }
    }

    fn count(count: u64, cut: Option<u64>) -> Changes {
        Changes {
            resize: Resize {
                drop_from: cut.unwrap_or(u64::MAX),
                at_least: count,
            },
            ..Changes::default()
        }
    }

    #[test]
    fn the_later_of_two_that_change_a_page_is_told() {
        let mut c = Conflicts::default();
        c.hold(0);
        c.record(1, &pages(&[3, 5]));
        c.hold(1);
        c.record(2, &pages(&[5, 9]));
        assert_eq!(c.find(0, &pages(&[1, 3])), Some(3));
        assert_eq!(c.find(1, &pages(&[1, 3])), None);
        assert_eq!(c.find(1, &pages(&[5])), Some(5));
        assert_eq!(c.find(2, &pages(&[5])), None);
        // Shrinking changes everything above the new end; growing changes nothing.
        assert_eq!(c.find(1, &count(9, Some(9))), Some(9));
        assert_eq!(c.find(1, &count(10, Some(10))), None);
        assert_eq!(c.find(1, &count(100, None)), None);
        c.record(3, &count(7, Some(7)));
        assert_eq!(c.find(2, &pages(&[2, 7])), Some(7));
        assert_eq!(c.find(2, &pages(&[2, 6])), None);
        assert_eq!(c.find(2, &count(100, None)), Some(7));
        // A rolled-back commit does not conflict, and the earlier commit that it hid conflicts again.
        c.roll_back(1);
        assert_eq!(c.find(0, &pages(&[5])), Some(5));
        assert_eq!(c.find(1, &pages(&[5])), None);
        c.release(0);
        assert!(c.commits.is_empty() && c.last.is_empty() && c.tracked == 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut c = Conflicts::default();
        c.hold(0);
        let half: Vec<u64> = (0..MOST_TRACKED as u64 / 2).collect();
        for commit in 1..=3 {
            c.record(commit, &pages(&half));
        }
        assert!(c.tracked <= MOST_TRACKED);
        // The commit is forgotten, so the transaction has to begin again.
        assert_eq!(c.find(0, &pages(&[u64::MAX - 1])), Some(u64::MAX - 1));
        assert_eq!(c.find(1, &pages(&[u64::MAX - 1])), None);
    }

    #[test]
    fn a_forgotten_commit_that_is_rolled_back_is_in_nobodys_way() {
        let mut c = Conflicts::default();
        c.hold(3);
        let many: Vec<u64> = (0..=MOST_TRACKED as u64).collect();
        c.record(4, &pages(&many));
        assert_eq!(c.find(3, &pages(&[7])), Some(7));
        c.roll_back(3);
        assert_eq!(c.find(3, &pages(&[7])), None);
    }
}
