//! The newest committed version of pages, beside the state and its mutex: threads that read pages which
//! do not change at the moment do not wait for each other, nor for commits.
//!
//! A page is put here, or replaced, with the state locked, and with the version that is the newest
//! then. A reader's state is registered under the same lock. So what is here of a page, and is not
//! newer than the reader's state, is the version that the reader sees: of a later one up to that state
//! this place would know.

use super::state::State;
use crate::cache::{Clock, Contents};
use crate::changes::{Change, Changes, Image};
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::{Lsn, planted};
use std::sync::PoisonError;

/// A version, and since which state it is the page's.
pub(super) struct Since {
    end: Lsn,
    image: Image,
}

impl Contents for Since {
    fn bytes(&self) -> usize {
        self.image.len()
    }
}

/// Newest versions, by page. Bounded.
pub(super) struct Newest {
    shards: Vec<Mutex<Clock<Since>>>,
}

/// Threads that read different pages seldom meet.
const SHARDS: usize = 64;
/// Pages for which a shard has room at least, or there are fewer shards.
const LEAST: usize = 8;

impl Newest {
    /// For up to `limit` bytes.
    pub(super) fn new(limit: usize, page_size: usize) -> Newest {
        let shards = (limit / (LEAST * page_size)).clamp(1, SHARDS);
        let shard = || Mutex::new(Clock::new(limit / shards));
        Newest {
            shards: (0..shards).map(|_| shard()).collect(),
        }
    }

    fn shard(&self, page: u64) -> MutexGuard<'_, Clock<Since>> {
        let shard = &self.shards[page as usize % self.shards.len()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a reader at the state `at` sees, if that is here.
    pub(super) fn get(&self, page: u64, at: Lsn) -> Option<Image> {
        let mut shard = self.shard(page);
        let since = shard.get(page)?;
        let is_seen = planted!("newer-version-shown", true, else since.end <= at);
        is_seen.then(|| since.image.clone())
    }

    /// Puts a version here that was found, if it is the page's newest.
    pub(super) fn found(&self, state: &State, page: u64, end: Lsn, image: &Image) {
        let chain = state.chains.get(&page);
        let newest = chain.map_or(Lsn::ORIGIN, |c| c.newest());
        if end == newest && state.dropped_since(page, end).is_none() {
            let image = image.clone();
            self.shard(page).insert(page, Since { end, image });
        }
    }

    /// A commit was published that ends at `end`.
    pub(super) fn published(&self, _: &State, changes: &Changes, end: Lsn) {
        if changes.resize.drop_from < u64::MAX {
            for shard in &self.shards {
                let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.clear();
            }
        }
        for (page, change) in &changes.pages {
            let mut shard = self.shard(*page);
            match change {
                Change::Discard => shard.remove(*page),
                Change::Write { image, .. } => {
                    let image = image.clone();
                    shard.insert(*page, Since { end, image });
                }
            }
        }
    }

    /// Bytes in it.
    pub(super) fn bytes(&self) -> u64 {
        (0..self.shards.len() as u64)
            .map(|n| self.shard(n).bytes())
            .sum()
    }
}
