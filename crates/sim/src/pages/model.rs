//! The states that a page file must show: one after each commit.

use logforce_pages::{Result, Snapshot, Transaction};
use logforce_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Contents of a page.
pub type Image = Arc<[u8]>;

/// Pages that a run uses.
#[derive(Debug, Clone)]
pub struct Universe {
    /// Number of pages, from 0 on, that most transactions use, so that they conflict.
    near: u64,
    /// Pages at the edges of the map's sectors and of the page table's nodes, and pages far away.
    far: Vec<u64>,
    /// Size of a page, bytes.
    size: usize,
}

impl Universe {
    /// Returns the pages for a file with pages of `size` bytes and page numbers up to `last`.
    pub fn new(size: u32, near: u64, last: u64) -> Universe {
        let edges = [
            31,
            32,
            33,
            62,
            63,
            255,
            256,
            257,
            1023,
            1024,
            65_535,
            65_536,
            1 << 20,
            1 << 40,
        ];
        Universe {
            near,
            far: edges.into_iter().filter(|p| *p <= last).collect(),
            size: size as usize,
        }
    }

    /// Returns all page numbers.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        (0..self.near).chain(self.far.iter().copied())
    }

    /// Returns the size of a page, bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    fn pick(&self, rng: &mut Rng) -> u64 {
        match self.far.is_empty() || !rng.one_in(4) {
            true => rng.below(self.near),
            false => rng.pick(&self.far),
        }
    }

    /// Returns a whole page, with its number and the writer's stamp in every 16 bytes.
    pub fn contents(&self, page: u64, stamp: u64) -> Vec<u8> {
        let mut unit = page.to_le_bytes().to_vec();
        unit.extend(stamp.to_le_bytes());
        unit.repeat(self.size / 16)
    }
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A page is written as a whole.
    Write(u64),
    /// Some bytes of a page are changed.
    Change {
        /// Number of the page.
        page: u64,
        /// Offset in the page, bytes.
        at: usize,
        /// Number of bytes.
        len: usize,
    },
    /// A page is dropped.
    Discard(u64),
    /// All pages from this one on are dropped.
    Shrink(u64),
    /// The file grows to this number of pages.
    Grow(u64),
}

impl Step {
    fn page(self) -> Option<u64> {
        match self {
            Step::Write(page) | Step::Change { page, .. } | Step::Discard(page) => Some(page),
            Step::Shrink(_) | Step::Grow(_) => None,
        }
    }
}

/// Returns random steps that a transaction on `count` pages accepts.
pub fn random_steps(rng: &mut Rng, universe: &Universe, mut count: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    if rng.one_in(12) {
        let to = universe.pick(rng);
        steps.push(match to < count {
            true => Step::Shrink(to),
            false => Step::Grow(to),
        });
        count = to;
        if rng.one_in(3) {
            count = universe.pick(rng).max(count);
            steps.push(Step::Grow(count));
        }
    }
    let mut used = BTreeSet::new();
    for _ in 0..1 + rng.below(6) {
        let page = universe.pick(rng);
        if !used.insert(page) {
            continue;
        }
        let step = match rng.below(8) {
            0 if page < count => Step::Discard(page),
            1..=4 => {
                let len = 1 + rng.below(40) as usize;
                let at = rng.below((universe.size - len) as u64) as usize;
                Step::Change { page, at, len }
            }
            _ => Step::Write(page),
        };
        if !matches!(step, Step::Discard(_)) {
            count = count.max(page + 1);
        }
        steps.push(step);
    }
    steps
}

/// Returns steps that drop up to three of `count` pages, or all from one on; none if there are no pages.
pub fn shrinking_steps(rng: &mut Rng, universe: &Universe, count: u64) -> Vec<Step> {
    let mut pages = BTreeSet::new();
    for _ in 0..1 + rng.below(3) {
        pages.insert(universe.pick(rng));
    }
    pages.retain(|page| *page < count);
    match pages.first() {
        Some(first) if rng.one_in(4) => vec![Step::Shrink(*first)],
        _ => pages.into_iter().map(Step::Discard).collect(),
    }
}

/// A transaction that may be committed.
#[derive(Debug, Clone)]
pub struct Done {
    /// Identity of the transaction, which it writes into its pages.
    pub stamp: u64,
    /// Steps of the transaction.
    pub steps: Vec<Step>,
    /// Contents that it saw of the pages that it writes; `None` for zeroes. No other transaction may
    /// commit these pages in between.
    pub before: Vec<(u64, Option<Image>)>,
}

impl Done {
    /// Creates a transaction that has not read anything.
    pub fn new(stamp: u64, steps: Vec<Step>) -> Done {
        Done {
            stamp,
            steps,
            before: Vec::new(),
        }
    }

    /// Reads the pages that it will write.
    ///
    /// # Errors
    /// Of the page file.
    pub fn look(&mut self, txn: &Transaction, universe: &Universe) -> Result<()> {
        let mut buf = vec![0; universe.size];
        for page in self.steps.iter().filter_map(|s| s.page()) {
            let mut before = None;
            if page < txn.page_count() {
                txn.read(page, &mut buf)?;
                before = not_zeroes(&buf);
            }
            self.before.push((page, before));
        }
        Ok(())
    }

    /// Performs its steps in a transaction.
    ///
    /// # Errors
    /// Of the page file.
    pub fn perform(&self, txn: &mut Transaction, universe: &Universe) -> Result<()> {
        for step in &self.steps {
            match *step {
                Step::Write(page) => txn.write(page, &universe.contents(page, self.stamp))?,
                Step::Change { page, at, len } => {
                    change(txn.page_mut(page)?, at, len, self.stamp);
                }
                Step::Discard(page) => txn.discard(page)?,
                Step::Shrink(count) | Step::Grow(count) => txn.set_page_count(count)?,
            }
        }
        Ok(())
    }
}

fn change(bytes: &mut [u8], at: usize, len: usize, stamp: u64) {
    let stamp = stamp.to_le_bytes();
    let values = stamp.iter().map(|b| b | 1).cycle();
    for (byte, value) in bytes[at..at + len].iter_mut().zip(values) {
        *byte = value;
    }
}

fn not_zeroes(bytes: &[u8]) -> Option<Image> {
    bytes.iter().any(|b| *b != 0).then(|| bytes.into())
}

/// A committed state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Pages that are not zeroes.
    pub pages: BTreeMap<u64, Image>,
    /// Number of pages.
    pub count: u64,
}

impl State {
    /// Applies the steps of a transaction.
    pub fn apply(&mut self, done: &Done, universe: &Universe) {
        for step in &done.steps {
            let (page, bytes) = match *step {
                Step::Write(page) => (page, universe.contents(page, done.stamp)),
                Step::Change { page, at, len } => {
                    let zeroes = || vec![0; universe.size];
                    let mut bytes = self.pages.get(&page).map_or_else(zeroes, |p| p.to_vec());
                    change(&mut bytes, at, len, done.stamp);
                    (page, bytes)
                }
                Step::Discard(page) => {
                    self.pages.remove(&page);
                    continue;
                }
                Step::Shrink(count) => {
                    self.pages.retain(|page, _| *page < count);
                    self.count = count;
                    continue;
                }
                Step::Grow(count) => {
                    self.count = self.count.max(count);
                    continue;
                }
            };
            self.pages.insert(page, bytes.into());
            self.count = self.count.max(page + 1);
        }
    }

    /// Returns the state that a snapshot shows.
    ///
    /// # Errors
    /// Of the page file.
    pub fn of(snapshot: &Snapshot, universe: &Universe) -> Result<State> {
        let mut state = State {
            count: snapshot.page_count(),
            ..State::default()
        };
        let mut buf = vec![0; universe.size];
        for page in universe.pages().filter(|p| *p < state.count) {
            snapshot.read(page, &mut buf)?;
            state
                .pages
                .extend(not_zeroes(&buf).map(|image| (page, image)));
        }
        Ok(state)
    }

    /// Describes the difference between two states; `None` if they are the same.
    pub fn difference(&self, other: &State) -> Option<String> {
        if self.count != other.count {
            return Some(format!("{} pages and {}", self.count, other.count));
        }
        let all: BTreeSet<u64> = self
            .pages
            .keys()
            .chain(other.pages.keys())
            .copied()
            .collect();
        let page = |p: &u64| self.pages.get(p) != other.pages.get(p);
        let page = all.into_iter().find(page)?;
        let (mine, theirs) = (self.pages.get(&page), other.pages.get(&page));
        let at = match (mine, theirs) {
            (Some(a), Some(b)) => a.iter().zip(b.iter()).position(|(a, b)| a != b),
            _ => Some(0),
        };
        let at = at.unwrap_or(0);
        let show = |image: Option<&Image>| match image {
            None => "zeroes".to_owned(),
            Some(image) => format!("{:02x?}", &image[at..image.len().min(at + 16)]),
        };
        Some(format!(
            "page {page} from byte {at} on: {} and {}",
            show(mine),
            show(theirs)
        ))
    }
}

/// Commits since some state.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// State at the beginning.
    pub base: State,
    /// Number of the last commit in that state.
    pub base_commit: u64,
    /// Transactions, by commit number.
    pub done: BTreeMap<u64, Done>,
}

impl History {
    /// Returns the state after a commit, without commits whose numbers are unknown.
    pub fn at(&self, commit: u64, universe: &Universe) -> State {
        let mut state = self.base.clone();
        for done in self.done.range(..=commit).map(|(_, done)| done) {
            state.apply(done, universe);
        }
        state
    }

    /// Returns true if all commits up to this number are known.
    pub fn is_whole(&self, commit: u64) -> bool {
        (self.base_commit + 1..=commit).all(|n| self.done.contains_key(&n))
    }

    /// Checks that each transaction saw the latest contents of the pages that it wrote. Returns a
    /// violation in words, or `None`.
    pub fn not_isolated(&self, commit: u64, universe: &Universe) -> Option<String> {
        let mut state = self.base.clone();
        for (number, done) in self.done.range(..=commit) {
            for (page, before) in &done.before {
                if state.pages.get(page) != before.as_ref() {
                    return Some(format!(
                        "commit {number} did not see the last write of page {page}"
                    ));
                }
            }
            state.apply(done, universe);
        }
        None
    }

    /// Returns a history that leads to the state `found` after commit `commit`. It fills gaps in the commit
    /// numbers with transactions of unknown outcome, and must agree with the states that snapshots showed
    /// (`seen`, each with its commit). Returns `None` if there is no such history.
    pub fn explain<'a>(
        &self,
        unknown: &[Done],
        (commit, found): (u64, &State),
        seen: impl Iterator<Item = (u64, &'a State)> + Clone,
        universe: &Universe,
    ) -> Option<History> {
        let gaps = self.base_commit + 1..=commit;
        let gaps: Vec<u64> = gaps.filter(|n| !self.done.contains_key(n)).collect();
        // Earlier gaps are of commits that were refused for lack of space.
        let gaps = &gaps[gaps.len().saturating_sub(6)..];
        let fits = |history: &History| {
            let agrees = |(n, state): (u64, &State)| {
                !history.is_whole(n) || history.at(n, universe) == *state
            };
            let is_isolated = || history.not_isolated(commit, universe).is_none();
            history.at(commit, universe) == *found
                && (!history.is_whole(commit) || is_isolated())
                // If there is no choice, the caller reports the difference.
                && (unknown.is_empty() || seen.clone().all(agrees))
        };
        self.fill(unknown, gaps, &fits)
    }

    fn fill(
        &self,
        left: &[Done],
        gaps: &[u64],
        fits: &dyn Fn(&History) -> bool,
    ) -> Option<History> {
        let [first, left @ ..] = left else {
            return fits(self).then(|| self.clone());
        };
        let absent = self.fill(left, gaps, fits);
        absent.or_else(|| {
            let free = gaps.iter().filter(|gap| !self.done.contains_key(gap));
            free.copied().find_map(|gap| {
                let mut with = self.clone();
                with.done.insert(gap, first.clone());
                with.fill(left, gaps, fits)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn universe() -> Universe {
        Universe::new(512, 20, 1024)
    }

    #[test]
    fn the_model_tells_states_apart() {
        let universe = universe();
        let mut history = History::default();
        let steps = [
            vec![Step::Write(3)],
            vec![Step::Write(3), Step::Write(4)],
            vec![Step::Shrink(4), Step::Grow(9)],
        ];
        for (n, steps) in (1..).zip(steps) {
            history.done.insert(n, Done::new(n, steps));
        }
        let at = |history: &History, n| history.at(n, &universe);
        let last = at(&history, 3);
        assert_eq!((last.count, last.pages.len()), (9, 1));
        assert_eq!(last.pages[&3][8], 2);
        assert!(at(&history, 1).difference(&at(&history, 2)).is_some());
        let unknown = [history.done.remove(&2).unwrap()];
        let seen = std::iter::empty::<(u64, &State)>;
        let explain = |found: &State| history.explain(&unknown, (3, found), seen(), &universe);
        assert!(explain(&last).is_some());
        let mut found = last.clone();
        found.pages.insert(3, universe.contents(3, 1).into());
        assert!(explain(&found).is_some(), "without the unknown one");
        found.pages.insert(3, universe.contents(3, 9).into());
        assert!(explain(&found).is_none());
    }

    #[test]
    fn what_a_transaction_did_not_see_is_noticed() {
        let universe = universe();
        let mut history = History::default();
        history.done.insert(1, Done::new(1, vec![Step::Write(3)]));
        let mut second = Done::new(2, vec![Step::Write(3)]);
        second.before = vec![(3, None)];
        history.done.insert(2, second);
        assert!(history.not_isolated(1, &universe).is_none());
        assert!(history.not_isolated(2, &universe).is_some());
    }
}
