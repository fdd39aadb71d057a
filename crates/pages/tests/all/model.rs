//! What a page file should hold.

use logforce_pages::{Result, Snapshot, Transaction};
use logforce_testkit::Rng;
use std::collections::BTreeMap;

/// The numbers of the pages that random transactions use: some beside each other, some at the edges
/// of nodes of the page table, some far off.
pub fn universe() -> Vec<u64> {
    let near = 0..20;
    let edges = [31, 32, 33, 255, 256, 257, 1023, 1024, 65_535, 65_536];
    near.chain(edges).chain([1 << 20, 1 << 40]).collect()
}

/// A page's contents: told by its number and by who wrote it, in every 16 bytes.
pub fn contents(page: u64, stamp: u64, size: u32) -> Vec<u8> {
    let mut unit = page.to_le_bytes().to_vec();
    unit.extend(stamp.to_le_bytes());
    unit.repeat(size as usize / 16)
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Write(u64),
    Change(u64),
    Discard(u64),
    Count(u64),
}

/// A transaction.
#[derive(Debug, Clone)]
pub struct Done {
    pub stamp: u64,
    pub steps: Vec<Step>,
    /// Who had written the pages that it writes, before it did, as it saw it: 0 if nobody. No other
    /// transaction may come between.
    pub before: Vec<(u64, u64)>,
}

impl Done {
    pub fn new(stamp: u64, steps: &[Step]) -> Done {
        Done {
            stamp,
            steps: steps.to_vec(),
            before: Vec::new(),
        }
    }
}

/// A committed state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Who wrote each page that is not zeroes.
    pub pages: BTreeMap<u64, u64>,
    pub count: u64,
}

impl State {
    pub fn apply(&mut self, done: &Done) {
        for step in &done.steps {
            match *step {
                Step::Write(page) | Step::Change(page) => {
                    self.pages.insert(page, done.stamp);
                    self.count = self.count.max(page + 1);
                }
                Step::Discard(page) => {
                    self.pages.remove(&page);
                }
                Step::Count(count) => {
                    self.pages.retain(|page, _| *page < count);
                    self.count = count;
                }
            }
        }
    }

    /// What the snapshot shows, of the universe.
    ///
    /// # Panics
    /// If a page is not whole, or another one.
    #[track_caller]
    pub fn of(snapshot: &Snapshot, size: u32, what: &str) -> Result<State> {
        let mut state = State {
            count: snapshot.page_count(),
            ..State::default()
        };
        let mut buf = vec![0; size as usize];
        for page in universe().into_iter().filter(|p| *p < state.count) {
            snapshot.read(page, &mut buf)?;
            if buf.iter().all(|b| *b == 0) {
                continue;
            }
            let stamp = u64::from_le_bytes(buf[8..16].try_into().unwrap());
            assert!(
                buf == contents(page, stamp, size),
                "{what}: page {page} is not whole, or another one"
            );
            state.pages.insert(page, stamp);
        }
        Ok(state)
    }
}

/// What was committed since some state.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub base: State,
    /// The number of the last commit in it.
    pub base_commit: u64,
    /// By number.
    pub done: BTreeMap<u64, Done>,
}

impl History {
    /// The state after a commit, without those that nobody has noted down.
    pub fn at(&self, commit: u64) -> State {
        let mut state = self.base.clone();
        for done in self.done.range(..=commit).map(|(_, done)| done) {
            state.apply(done);
        }
        state
    }

    /// Each transaction has seen what was there when it was committed, of the pages that it writes.
    #[track_caller]
    pub fn check_isolation(&self, what: &str) {
        let mut state = self.base.clone();
        for (number, done) in &self.done {
            for (page, stamp) in &done.before {
                let there = state.pages.get(page).copied().unwrap_or(0);
                assert_eq!(
                    there, *stamp,
                    "{what}: commit {number} has not seen who wrote page {page} last"
                );
            }
            state.apply(done);
        }
    }
}

/// Steps of a random transaction on a state of `count` pages.
pub fn steps(rng: &mut Rng, count: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let all = universe();
    let mut count = count;
    let mut used = std::collections::BTreeSet::new();
    // Mostly near ones, so that transactions meet.
    let pick = |rng: &mut Rng| match rng.one_in(3) {
        true => rng.pick(&all),
        false => rng.below(20),
    };
    if rng.one_in(12) {
        count = pick(rng);
        steps.push(Step::Count(count));
        if rng.one_in(3) {
            count = pick(rng).max(count);
            steps.push(Step::Count(count));
        }
    }
    for _ in 0..rng.below(6) + 1 {
        let page = pick(rng);
        if !used.insert(page) {
            continue;
        }
        match rng.below(6) {
            0 if page < count => steps.push(Step::Discard(page)),
            1 | 2 => steps.push(Step::Change(page)),
            _ => steps.push(Step::Write(page)),
        }
        if !matches!(steps.last(), Some(Step::Discard(_))) {
            count = count.max(page + 1);
        }
    }
    steps
}

/// Looks at what the steps will write.
pub fn look(tx: &Transaction, done: &mut Done, size: u32) -> Result<()> {
    let mut buf = vec![0; size as usize];
    for step in &done.steps {
        let (Step::Write(page) | Step::Change(page) | Step::Discard(page)) = *step else {
            continue;
        };
        let mut stamp = 0;
        if page < tx.page_count() {
            tx.read(page, &mut buf)?;
            stamp = u64::from_le_bytes(buf[8..16].try_into().unwrap());
        }
        done.before.push((page, stamp));
    }
    Ok(())
}

/// Does the steps in a transaction.
pub fn perform(tx: &mut Transaction, done: &Done, size: u32) -> Result<()> {
    for step in &done.steps {
        match *step {
            Step::Write(page) => tx.write(page, &contents(page, done.stamp, size))?,
            Step::Change(page) => {
                let now = tx.page_mut(page)?;
                now.copy_from_slice(&contents(page, done.stamp, size));
            }
            Step::Discard(page) => tx.discard(page)?,
            Step::Count(count) => tx.set_page_count(count)?,
        }
    }
    Ok(())
}
