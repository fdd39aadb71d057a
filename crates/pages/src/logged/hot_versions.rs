//! Newest committed versions of pages, outside the state and its mutex. Threads that read pages which do not
//! change at the moment wait neither for each other nor for commits.
//!
//! A page is inserted or replaced with the state locked, in the version that is then the newest. Readers get
//! a state only after the pages that it changed were inserted here. So a version here that is not newer than
//! the reader's state is the one that the reader sees: a later one up to that state would have replaced it.

use super::lane_copies::LaneCopies;
use super::state::State;
use crate::cache::{Clock, Contents};
use crate::changes::{Change, Changes, Image};
use logforce_device::sync::{Apart, AtomicU64, Mutex, MutexGuard};
use logforce_format::{Lsn, planted};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Version of a page, and the end of the commit that made it.
struct Since {
    end: Lsn,
    image: Image,
}

impl Contents for Since {
    fn bytes(&self) -> usize {
        self.image.len()
    }
}

/// Newest versions by page, limited by bytes.
pub(super) struct HotVersions {
    shards: Vec<Shard>,
    near: Option<LaneCopies>,
}

/// Part of the pages.
struct Shard {
    /// Number of times that a commit has changed one of the pages, which makes copies of them old. It is away
    /// from the lock, because many threads read it.
    changes: Apart<AtomicU64>,
    pages: Apart<Mutex<Pages>>,
}

struct Pages {
    contents: Clock<Since>,
    /// Number of lookups that have found a page.
    found: u64,
}

/// Number of shards. Threads that read different pages seldom use the same lock.
const SHARDS: usize = 64;
/// Minimum number of pages for which a shard has space. With less memory there are fewer shards.
const LEAST: usize = 8;
/// Number of pages found in a shard for each one that is copied for the lane of its reader. So most copies
/// are of the pages that are read most, and pages that are read once cost little. Tests of interleavings use
/// a smaller number, because their schedules have too few reads for any copy otherwise.
const COPIED: u64 = if cfg!(shuttle) { 2 } else { 32 };

impl HotVersions {
    /// Creates a table for up to `limit` bytes.
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

    /// Returns the version that a reader at the state `at` sees, if it is here.
    pub(super) fn get(&self, page: u64, at: Lsn) -> Option<Image> {
        let shard = self.shard(page);
        let Some(near) = &self.near else {
            return shard.pages().get(page, at);
        };
        // The changes of pages in the reader's state were counted before the reader got that state.
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
            // Counted with the shard locked, so no change of the page is missed.
            let changes = shard.changes.load(Acquire);
            drop(pages);
            near.keep(page, end, changes, &image);
        }
        Some(image)
    }

    /// Inserts a version that was found, if it is the page's newest.
    pub(super) fn found(&self, state: &State, page: u64, end: Lsn, image: &Image) {
        let chain = state.chains.get(&page);
        let newest = chain.map_or(Lsn::ORIGIN, |c| c.newest());
        if end == newest && state.dropped_since(page, end).is_none() {
            let image = image.clone();
            let mut pages = self.shard(page).pages();
            pages.contents.insert(page, Since { end, image });
        }
    }

    /// Records a published commit that ends at `end`. Must be called before a reader gets its state.
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

    /// Returns the number of bytes of all versions and copies.
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

    /// Locks the shard's pages, one of which is about to change.
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
