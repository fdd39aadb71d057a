//! The newest committed version of pages, beside the state and its mutex: threads that read pages which
//! do not change at the moment do not wait for each other, nor for commits.
//!
//! A page is put here, or replaced, with the state locked, and with the version that is the newest
//! then. Readers get a state after the pages that it changed were put here. So what is here of a page,
//! and is not newer than the reader's state, is the version that the reader sees: of a later one up to
//! that state this place would know.

use super::lane_copies::LaneCopies;
use super::state::State;
use crate::cache::{Clock, Contents};
use crate::changes::{Change, Changes, Image};
use logforce_device::sync::{Apart, AtomicU64, Mutex, MutexGuard};
use logforce_format::{Lsn, planted};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A version, and since which state it is the page's.
struct Since {
    end: Lsn,
    image: Image,
}

impl Contents for Since {
    fn bytes(&self) -> usize {
        self.image.len()
    }
}

/// Newest versions, by page. Bounded.
pub(super) struct HotVersions {
    shards: Vec<Shard>,
    near: Option<LaneCopies>,
}

/// Some of the pages.
struct Shard {
    /// How often a commit has changed one of them: what makes copies of them old. Away from the lock:
    /// it is read by many.
    changes: Apart<AtomicU64>,
    pages: Apart<Mutex<Pages>>,
}

struct Pages {
    contents: Clock<Since>,
    /// Pages that were looked up and found.
    found: u64,
}

/// Threads that read different pages seldom meet.
const SHARDS: usize = 64;
/// Pages for which a shard has room at least, or there are fewer shards.
const LEAST: usize = 8;
/// Of so many pages that are found in a shard, the last one is copied for the lane of its reader: most
/// copies are then of what is read most, and reading what is read once costs little. Fewer in tests of
/// interleavings, whose schedules have too few reads for any copy otherwise.
const COPIED: u64 = if cfg!(shuttle) { 2 } else { 32 };

impl HotVersions {
    /// For up to `limit` bytes.
    pub(super) fn new(limit: usize, page_size: usize) -> HotVersions {
        let near = LaneCopies::new(limit / 8, page_size);
        let limit = limit - near.as_ref().map_or(0, LaneCopies::limit);
        let shards = (limit / (LEAST * page_size)).clamp(1, SHARDS);
        let shard = || Shard {
            changes: Apart::default(),
            pages: Apart(Mutex::new(Pages {
                contents: Clock::new(limit / shards),
                found: 0,
            })),
        };
        HotVersions {
            shards: (0..shards).map(|_| shard()).collect(),
            near,
        }
    }

    fn shard(&self, page: u64) -> &Shard {
        &self.shards[page as usize % self.shards.len()]
    }

    /// What a reader at the state `at` sees, if that is here.
    pub(super) fn get(&self, page: u64, at: Lsn) -> Option<Image> {
        let shard = self.shard(page);
        let Some(near) = &self.near else {
            return shard.pages().get(page, at);
        };
        // The reader got its state after the changes of the pages in it were counted.
        let copy = near.get(page, at, shard.changes.load(Acquire));
        if copy.is_some() {
            return copy;
        }
        let mut pages = shard.pages();
        let image = pages.get(page, at)?;
        pages.found += 1;
        if pages.found.is_multiple_of(COPIED)
            && let Some(end) = pages.contents.get(page).map(|s| s.end)
        {
            // Counted with the shard locked: no change of the page is missed.
            let changes = shard.changes.load(Acquire);
            drop(pages);
            near.keep(page, end, changes, &image);
        }
        Some(image)
    }

    /// Puts a version here that was found, if it is the page's newest.
    pub(super) fn found(&self, state: &State, page: u64, end: Lsn, image: &Image) {
        let chain = state.chains.get(&page);
        let newest = chain.map_or(Lsn::ORIGIN, |c| c.newest());
        if end == newest && state.dropped_since(page, end).is_none() {
            let image = image.clone();
            let mut pages = self.shard(page).pages();
            pages.contents.insert(page, Since { end, image });
        }
    }

    /// A commit was published that ends at `end`. Before a reader gets its state.
    pub(super) fn published(&self, _: &State, changes: &Changes, end: Lsn) {
        if changes.resize.drop_from < u64::MAX {
            for shard in &self.shards {
                shard.changed().contents.clear();
            }
        }
        for (page, change) in &changes.pages {
            let mut pages = self.shard(*page).changed();
            match change {
                Change::Discard => pages.contents.remove(*page),
                Change::Write { image, .. } => {
                    let image = image.clone();
                    pages.contents.insert(*page, Since { end, image });
                }
            }
        }
    }

    /// Bytes in it.
    pub(super) fn bytes(&self) -> u64 {
        let held = |shard: &Shard| shard.pages().contents.bytes();
        let near = self.near.as_ref().map_or(0, LaneCopies::bytes);
        near + self.shards.iter().map(held).sum::<u64>()
    }
}

impl Shard {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its pages, one of which is about to change.
    fn changed(&self) -> MutexGuard<'_, Pages> {
        let pages = self.pages();
        self.changes.fetch_add(1, Release);
        pages
    }
}

impl Pages {
    fn get(&mut self, page: u64, at: Lsn) -> Option<Image> {
        let since = self.contents.get(page)?;
        let is_seen = planted!("newer-version-shown", true, else since.end <= at);
        is_seen.then(|| since.image.clone())
    }
}
