//! What a page file must show: the state after each commit.

use crate::common::PAGE;
use logforce_pages::{Result, Snapshot, Transaction};
use logforce_testkit::Rng;
use std::collections::BTreeMap;

/// Pages that the tests use.
const PAGES: u64 = 24;

/// The contents after a commit: pages that are not zeroes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub pages: BTreeMap<u64, Vec<u8>>,
    pub page_count: u64,
}

/// One step of a transaction.
#[derive(Debug, Clone)]
pub enum Step {
    Write(u64, u8),
    /// A few bytes of a page, at an offset.
    Change(u64, usize, u8),
    Discard(u64),
    Shrink(u64),
    Grow(u64),
}

/// Steps that the transaction accepts, for a file of `page_count` pages.
pub fn random_steps(rng: &mut Rng, mut page_count: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    if rng.one_in(12) {
        let count = rng.below(PAGES);
        steps.push(match count < page_count {
            true => Step::Shrink(count),
            false => Step::Grow(count),
        });
        page_count = count;
    }
    let mut pages: Vec<u64> = (0..1 + rng.below(5)).map(|_| rng.below(PAGES)).collect();
    pages.sort_unstable();
    pages.dedup();
    for page in pages {
        let value = rng.below(256) as u8;
        steps.push(match rng.below(8) {
            0 if page < page_count => Step::Discard(page),
            1..=4 => Step::Change(page, rng.below(PAGE as u64 - 8) as usize, value),
            _ => Step::Write(page, value),
        });
        if !matches!(steps.last(), Some(Step::Discard(_))) {
            page_count = page_count.max(page + 1);
        }
    }
    steps
}

/// Takes the steps in a transaction.
pub fn take(txn: &mut Transaction, steps: &[Step]) -> Result<()> {
    for step in steps {
        match *step {
            Step::Write(page, value) => txn.write(page, &[value; PAGE])?,
            Step::Change(page, at, value) => txn.page_mut(page)?[at..at + 8].fill(value),
            Step::Discard(page) => txn.discard(page)?,
            Step::Shrink(count) | Step::Grow(count) => txn.set_page_count(count)?,
        }
    }
    Ok(())
}

impl State {
    /// The state after the steps.
    pub fn after(&self, steps: &[Step]) -> State {
        let mut next = self.clone();
        for step in steps {
            let (page, bytes) = match *step {
                Step::Write(page, value) => (page, vec![value; PAGE]),
                Step::Change(page, at, value) => {
                    let mut bytes = next.pages.get(&page).cloned().unwrap_or(vec![0; PAGE]);
                    bytes[at..at + 8].fill(value);
                    (page, bytes)
                }
                Step::Discard(page) => {
                    next.pages.remove(&page);
                    continue;
                }
                Step::Grow(count) => {
                    next.page_count = next.page_count.max(count);
                    continue;
                }
                Step::Shrink(count) => {
                    next.pages.retain(|page, _| *page < count);
                    next.page_count = count;
                    continue;
                }
            };
            next.pages.insert(page, bytes);
            next.page_count = next.page_count.max(page + 1);
        }
        next.pages.retain(|_, bytes| bytes.iter().any(|b| *b != 0));
        next
    }

    /// What a snapshot shows.
    pub fn of(snapshot: &Snapshot) -> Result<State> {
        let mut state = State {
            page_count: snapshot.page_count(),
            ..State::default()
        };
        let mut bytes = vec![0; PAGE];
        for page in 0..snapshot.page_count() {
            snapshot.read(page, &mut bytes)?;
            if bytes.iter().any(|b| *b != 0) {
                state.pages.insert(page, bytes.clone());
            }
        }
        Ok(state)
    }

    /// Where two states differ, in words.
    pub fn difference(&self, other: &State) -> Option<String> {
        if self.page_count != other.page_count {
            return Some(format!(
                "{} pages and {}",
                self.page_count, other.page_count
            ));
        }
        let page = (0..self.page_count).find(|p| self.pages.get(p) != other.pages.get(p))?;
        let head = |s: &State| s.pages.get(&page).map(|b| b[..4].to_vec());
        Some(format!(
            "page {page}: {:?} and {:?}",
            head(self),
            head(other)
        ))
    }
}
