//! Data that the mutex of a logged page file guards: versions, generations, and the states that exist. The
//! table of their readers is outside. Only memory is used here.

use super::admission::{Admission, EndedGeneration, Generations};
use super::grow::Room;
use super::readers::CommitPoint;
use super::readers::{Asked, ReaderTable, Shown};
use super::version_chain::{Bytes, LONGEST_REDO, PageVersion, Pruned, VersionChain};
use super::version_eviction::ResidentVersions;
use crate::cache::Clock;
use crate::changes::ByPage;
use crate::changes::{Change, Changes, Image};
use crate::error::{Error, Result};
use logforce_format::{Lsn, Resize, planted};
use std::collections::VecDeque;
use std::sync::Arc;

/// Drop of all pages from a number on, by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DroppedRange {
    pub(super) end: Lsn,
    pub(super) from: u64,
}

/// States that may be read now.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) latest: CommitPoint,
    /// Newest state known to be durable.
    pub(super) durable: CommitPoint,
    /// States after that one, in ascending order.
    unforced: VecDeque<CommitPoint>,
}

impl Points {
    fn new(at: CommitPoint) -> Points {
        Points {
            latest: at,
            durable: at,
            unforced: VecDeque::new(),
        }
    }

    fn shown(&self, is_closing: bool) -> Shown {
        Shown {
            latest: self.latest,
            durable: self.durable,
            next: self.unforced.front().map(|p| p.end),
            is_closing,
        }
    }

    fn add(&mut self, point: CommitPoint) {
        self.latest = point;
        self.unforced.push_back(point);
    }

    /// Records that everything below `end` is durable. Returns true if that is new.
    fn forced(&mut self, end: Lsn) -> bool {
        let before = self.unforced.len();
        while let Some(point) = self.unforced.front().filter(|p| p.end <= end) {
            self.durable = *point;
            self.unforced.pop_front();
        }
        self.unforced.len() != before
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) points: Points,
    pub(super) generations: Generations,
    pub(super) chains: ByPage<VersionChain>,
    pub(super) readers: Arc<ReaderTable>,
    /// Drops that are newer than some reader, or that the map does not have yet.
    pub(super) drops: Vec<DroppedRange>,
    /// End of the last commit that set the number of pages.
    resized: Lsn,
    /// First page that is dropped by the commit that sets the number of pages and is being appended.
    resizing: Option<u64>,
    /// Counter of the moments at which pages were about to be written to the data file.
    pub(super) applies: u64,
    /// Versions in memory, which may have to leave it.
    pub(super) resident: ResidentVersions,
    /// True if a commit waits for another one that is being appended.
    is_awaited: bool,
    pub(super) failure: Option<Error>,
    pub(super) is_closing: bool,
    /// Pages as the data file holds them.
    pub(super) clean: Clock,
    pub(super) room: Room,
}

/// Plan for logging the change of a page.
#[derive(Debug)]
pub(super) struct Planned {
    /// Earlier contents of the page, if logging the difference is enough.
    pub(super) before: Option<Image>,
    /// Records that hold the earlier contents.
    pub(super) below: Vec<Lsn>,
}

impl State {
    /// Makes the state of a file at `at`, with a cache of `clean` bytes for pages as the data file holds
    /// them.
    pub(super) fn new(at: CommitPoint, clean: usize) -> State {
        let points = Points::new(at);
        State {
            readers: Arc::new(ReaderTable::new(points.shown(false))),
            points,
            generations: Generations::new(at.end),
            chains: ByPage::default(),
            drops: Vec::new(),
            resized: Lsn::ORIGIN,
            resizing: None,
            applies: 0,
            resident: ResidentVersions::default(),
            is_awaited: false,
            failure: None,
            is_closing: false,
            clean: Clock::new(clean),
            room: Room::default(),
        }
    }

    /// Shows the latest and the durable state: when this returns, new readers get them.
    ///
    /// After a commit was published, call this only once everything that readers use without this mutex is
    /// updated as well. Otherwise a reader whose state is newer than what it finds there would take an older
    /// version for its own.
    pub(super) fn show(&self) {
        self.readers.show(self.points.shown(self.is_closing));
    }

    /// Records that everything below `end` is durable.
    pub(super) fn forced(&mut self, end: Lsn) {
        // Shows the state before any version is forgotten that the previous durable state needed.
        if self.points.forced(end) {
            self.show();
        }
    }

    /// Refuses calls after a failure, and after the page file was closed.
    pub(super) fn check(&self) -> Result<()> {
        match (&self.failure, self.is_closing) {
            (Some(e), _) => Err(e.clone()),
            (None, true) => Err(Error::Closed),
            (None, false) => Ok(()),
        }
    }

    /// Refuses the changes if a commit that is not in the view at `at` changed one of their pages. Makes them
    /// wait for such a commit that is being appended, because it may still be given up. A transaction that
    /// began before that commit is in the order would only conflict with it again.
    pub(super) fn conflict(&mut self, changes: &Changes, at: Lsn) -> Result<Admission> {
        if planted!("conflict-missed") {
            return Ok(Admission::Go);
        }
        let mut is_taken = false;
        for page in changes.pages.keys() {
            let chain = self.chains.get(page);
            let is_dropped = self.drops.iter().any(|d| d.end > at && d.from <= *page);
            if is_dropped || chain.is_some_and(|c| c.newest() > at) {
                return Err(Error::Conflict { page: *page });
            }
            is_taken |= self.resizing.is_some_and(|from| from <= *page);
            is_taken |= chain.is_some_and(|c| c.reserved);
        }
        if let Some(from) = changes.end() {
            if self.resized > at {
                let page = self.points.latest.page_count;
                return Err(Error::Conflict { page });
            }
            is_taken |= self.resizing.is_some();
            for (page, chain) in self.chains.iter().filter(|(page, _)| **page >= from) {
                if chain.newest() > at {
                    return Err(Error::Conflict { page: *page });
                }
                is_taken |= chain.reserved;
            }
        }
        if is_taken && planted!("taken-page-conflicts") {
            let page = changes.pages.keys().next();
            let page = page.copied().unwrap_or_default();
            return Err(Error::Conflict { page });
        }
        self.is_awaited |= is_taken;
        Ok(match is_taken {
            true => Admission::Wait,
            false => Admission::Go,
        })
    }

    /// Reserves the pages for this commit until it is appended. Returns how each is to be logged.
    pub(super) fn reserve(&mut self, changes: &Changes) -> Vec<Planned> {
        self.generations.open.append_begins(changes);
        if changes.resize != Resize::NONE {
            self.resizing = changes.end();
        }
        let generation = self.generations.open.number;
        let mut planned = Vec::with_capacity(changes.pages.len());
        for (page, change) in &changes.pages {
            let chain = self.chains.entry(*page).or_default();
            chain.reserved = true;
            // Redo begins with this generation. If the generation holds ranges of a page, it must also hold
            // its image.
            let is_of_this = chain.generation == generation;
            let is_of_this = planted!("range-without-image", true, else is_of_this);
            // The record drops the page first, so ranges cannot build on its earlier contents.
            let is_dropped = *page >= changes.resize.drop_from;
            let is_dropped = planted!("range-over-drop", false, else is_dropped);
            let has_image = is_of_this
                && !is_dropped
                && chain
                    .last()
                    .is_some_and(|last| (1..LONGEST_REDO).contains(&last.redo.len()));
            let before = match (change, chain.last()) {
                (
                    Change::Write {
                        before: Some(b), ..
                    },
                    _,
                ) => Some(b.clone()),
                (
                    Change::Write { .. },
                    Some(PageVersion {
                        bytes: Bytes::Memory(b),
                        ..
                    }),
                ) => Some(b.clone()),
                _ => None,
            };
            let below = match (has_image, chain.last()) {
                (true, Some(last)) => last.redo.clone(),
                _ => Vec::new(),
            };
            planned.push(Planned {
                before: before.filter(|_| has_image),
                below,
            });
        }
        planned
    }

    /// Returns true, once, if a commit waits for one that is being appended. The caller must notify it.
    pub(super) fn take_awaited(&mut self) -> bool {
        std::mem::take(&mut self.is_awaited)
    }

    /// Releases the pages of a commit that was not appended.
    pub(super) fn release(&mut self, changes: &Changes) {
        for page in changes.pages.keys() {
            if let Some(chain) = self.chains.get_mut(page) {
                chain.reserved = false;
                if chain.versions.is_empty() && chain.base == Lsn::ORIGIN {
                    self.chains.remove(page);
                }
            }
        }
        if changes.resize != Resize::NONE {
            self.resizing = None;
        }
        self.generations.appended(changes, self.points.latest);
    }

    /// Puts a commit into the order. It was appended from `start` to `end`. `below` has, for each page, the
    /// records that its ranges build on, or none if its whole contents were logged. They are the records at
    /// the time of the reservation: since then the checkpointer may have written the version below, which the
    /// data file then holds. Returns the new state.
    pub(super) fn publish(
        &mut self,
        changes: &Changes,
        below: &[Vec<Lsn>],
        (start, end): (Lsn, Lsn),
    ) -> (CommitPoint, Pruned) {
        let table = self.readers.clone();
        let readers = table.asked();
        let mut pruned = Pruned::default();
        let latest = self.points.latest;
        self.points.add(CommitPoint {
            end,
            commit: latest.commit + 1,
            page_count: changes.page_count(latest.page_count),
        });
        self.generations.open.bytes += end.0 - start.0;
        if changes.resize != Resize::NONE {
            self.resized = end;
            self.resizing = None;
        }
        if changes.resize.drop_from < u64::MAX {
            self.drop_pages(changes, end, &readers, &mut pruned);
        }
        for ((page, change), below) in changes.pages.iter().zip(below) {
            let (bytes, redo) = match change {
                Change::Discard => (Bytes::Zero, Vec::new()),
                Change::Write { image, .. } => {
                    let mut redo = match planted!("redo-looked-up-late") {
                        true if !below.is_empty() => self.last_redo(*page),
                        _ => below.clone(),
                    };
                    redo.push(start);
                    (Bytes::Memory(image.clone()), redo)
                }
            };
            let version = PageVersion { end, bytes, redo };
            self.add_version(*page, version, &readers, &mut pruned);
        }
        self.generations.appended(changes, self.points.latest);
        (self.points.latest, pruned)
    }

    /// Returns the records that hold the newest version of a page, if the data file does not hold it.
    pub(super) fn last_redo(&self, page: u64) -> Vec<Lsn> {
        let last = self.chains.get(&page).and_then(VersionChain::last);
        last.map(|v| v.redo.clone()).unwrap_or_default()
    }

    /// Drops those of the commit's dropped pages that have versions. The entry in `drops` covers the others.
    fn drop_pages(
        &mut self,
        changes: &Changes,
        end: Lsn,
        readers: &Asked<'_>,
        pruned: &mut Pruned,
    ) {
        let from = changes.resize.drop_from;
        self.drops.push(DroppedRange { end, from });
        let written = |page: &u64| changes.pages.contains_key(page);
        let dropped: Vec<u64> = self.chains.keys().copied().collect();
        for page in dropped.into_iter().filter(|p| *p >= from && !written(p)) {
            let zero = PageVersion {
                end,
                bytes: Bytes::Zero,
                redo: Vec::new(),
            };
            self.add_version(page, zero, readers, pruned);
        }
    }

    fn add_version(
        &mut self,
        page: u64,
        version: PageVersion,
        readers: &Asked<'_>,
        pruned: &mut Pruned,
    ) {
        let chain = self.chains.entry(page).or_default();
        chain.reserved = false;
        if chain.generation != self.generations.open.number {
            chain.generation = self.generations.open.number;
            self.generations.open.pages.push(page);
        }
        if let Bytes::Memory(_) = version.bytes {
            self.resident.added(page, version.end);
        }
        if self.resident.is_stale() {
            self.forget_gone();
        }
        let chain = self.chains.entry(page).or_default();
        chain.versions.push(version);
        let gone = chain.prune(readers, self.points.durable.end);
        self.resident.removed(gone.images);
        pruned.slots.extend(gone.slots);
    }

    fn forget_gone(&mut self) {
        let chains = &self.chains;
        self.resident.retain(|page, end| {
            let versions = chains.get(&page).map(|c| &c.versions);
            versions.is_some_and(|v| v.iter().any(|v| v.end == end))
        });
    }

    /// Returns the end of the commit that dropped the page, with all above some number, after the version
    /// `base`.
    pub(super) fn dropped_since(&self, page: u64, base: Lsn) -> Option<Lsn> {
        let drops = self.drops.iter();
        let of_page = drops.filter(|d| d.from <= page && d.end > base);
        of_page.map(|d| d.end).min()
    }

    /// Returns the version of a page that the data file holds.
    pub(super) fn base_of(&self, page: u64) -> Lsn {
        self.chains.get(&page).map_or(Lsn::ORIGIN, |c| c.base)
    }

    /// Returns true if the page was about to be written to the data file after the moment `seen`.
    pub(super) fn was_applied_since(&self, page: u64, seen: u64) -> bool {
        let chain = self.chains.get(&page);
        chain.is_some_and(|c| c.applied_at > seen)
    }

    /// Moves versions out of memory, oldest first, until `limit` of them are left. Only durable versions are
    /// moved, because others cannot be read back.
    pub(super) fn evict(&mut self, limit: usize) {
        let mut looks = self.resident.entries();
        while self.resident.count() > limit && looks > 0 {
            looks -= 1;
            let Some((page, end)) = self.resident.pop() else {
                return;
            };
            let version = self
                .chains
                .get_mut(&page)
                .and_then(|c| c.versions.iter_mut().find(|v| v.end == end));
            let Some(version) = version else { continue };
            if !matches!(version.bytes, Bytes::Memory(_)) {
                continue;
            }
            if end > self.points.durable.end {
                // No later version is durable either.
                self.resident.put_back(page, end);
                return;
            }
            // Records below the front have left the log.
            if version
                .redo
                .first()
                .is_some_and(|first| *first >= self.generations.front)
            {
                version.bytes = Bytes::Log(version.redo.clone());
                self.resident.removed(1);
            }
        }
    }

    /// Puts a version back into memory that had left it for the log.
    pub(super) fn read_back(&mut self, page: u64, end: Lsn, image: &Image) {
        let chain = self.chains.get_mut(&page);
        let version = chain.and_then(|c| c.versions.iter_mut().find(|v| v.end == end));
        if let Some(version) = version
            && let Bytes::Log(_) = version.bytes
        {
            version.bytes = Bytes::Memory(image.clone());
            self.resident.added(page, end);
        }
    }

    /// Returns the versions that have readers and are only in the log below `front`, besides those that were
    /// written to the data file. Everything that was ever written is at or below `forced`.
    pub(super) fn leaving(
        &self,
        front: Lsn,
        forced: Lsn,
        written: &[(u64, Lsn)],
    ) -> Vec<(u64, Lsn, Bytes)> {
        let mut leaving = Vec::new();
        let readers = self.readers.asked();
        // This is the usual case. Otherwise every page is visited.
        if readers.oldest().is_none_or(|oldest| oldest >= forced) {
            return leaving;
        }
        let written: std::collections::HashMap<u64, Lsn> = written.iter().copied().collect();
        for (page, chain) in &self.chains {
            // A page whose newest version was written with the generation before is not written again, but
            // has older versions all the same.
            let applied = match written.get(page) {
                Some(applied) => *applied,
                None => chain.base,
            };
            for (i, version) in chain.versions.iter().enumerate() {
                // Includes versions in memory, because they could no longer leave it for the log.
                if !matches!(version.bytes, Bytes::Log(_) | Bytes::Memory(_)) {
                    continue;
                }
                let until = chain.seen_until(i);
                let is_read = until.is_some_and(|to| readers.any_in(version.end, to));
                let is_below = version.redo.first().is_some_and(|first| *first < front);
                // The version that was written is in the data file. A newer one begins with an image that
                // stays in the log.
                if is_below && is_read && version.end < applied {
                    leaving.push((*page, version.end, version.bytes.clone()));
                }
            }
        }
        leaving
    }

    /// Records that a version is now in the versions file.
    pub(super) fn moved(&mut self, page: u64, end: Lsn, slot: u64) {
        let chain = self.chains.get_mut(&page);
        let version = chain.and_then(|c| c.versions.iter_mut().find(|v| v.end == end));
        if let Some(version) = version {
            if let Bytes::Memory(_) = version.bytes {
                self.resident.removed(1);
            }
            version.bytes = Bytes::InVersionsFile(slot);
        }
    }

    /// Records that the data file holds these versions of pages durably. Returns the slots of the versions
    /// file that are free now.
    pub(super) fn written(&mut self, written: &[(u64, Lsn)]) -> Vec<u64> {
        let mut pruned = Pruned::default();
        for (page, applied) in written {
            let Some(chain) = self.chains.get_mut(page) else {
                continue;
            };
            chain.base = *applied;
            // The data file holds this version now.
            if let Some(at) = chain.versions.iter().position(|v| v.end == *applied) {
                let version = chain.versions.remove(at);
                pruned.add(&version.bytes);
                if let Bytes::Memory(image) = version.bytes {
                    self.clean.insert(*page, image);
                }
            }
        }
        self.resident.removed(pruned.images);
        pruned.slots
    }

    /// Forgets the versions of these pages that can no longer be read. Returns the slots of the versions file
    /// that are free now.
    pub(super) fn prune(&mut self, pages: &[u64]) -> Vec<u64> {
        let mut pruned = Pruned::default();
        let durable = self.points.durable.end;
        let table = self.readers.clone();
        let readers = table.asked();
        let oldest = readers.oldest().unwrap_or(Lsn(u64::MAX));
        for page in pages {
            let Some(chain) = self.chains.get_mut(page) else {
                continue;
            };
            let gone = chain.prune(&readers, durable);
            pruned.images += gone.images;
            pruned.slots.extend(gone.slots);
            // A transaction that began before the page's last change must learn of it.
            let is_needed = !chain.versions.is_empty()
                || chain.reserved
                || chain.generation == self.generations.open.number
                || chain.newest() > oldest
                // Without its chain the page would count as dropped.
                || self.drops.iter().any(|d| d.from <= *page && d.end <= chain.newest());
            if !is_needed {
                self.chains.remove(page);
            }
        }
        self.resident.removed(pruned.images);
        pruned.slots
    }

    /// Forgets the drops that the map has and that are not newer than any reader.
    pub(super) fn forget_drops(&mut self, ended: EndedGeneration) {
        let oldest = self.readers.asked().oldest().unwrap_or(Lsn(u64::MAX));
        self.drops
            .retain(|d| d.end > ended.at.end || d.end > oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::readers::tests::table;
    use super::*;

    /// A page is not written again if the checkpoint before has written its newest version, made in the
    /// generation that was then open. Its older versions leave with the log all the same.
    #[test]
    fn a_version_that_is_read_does_not_go_with_the_log() {
        let origin = CommitPoint {
            end: Lsn::ORIGIN,
            commit: 0,
            page_count: 10,
        };
        let mut state = State::new(origin, 0);
        let version = |end: u64| PageVersion {
            end: Lsn(end),
            bytes: Bytes::Log(vec![Lsn(end - 5)]),
            redo: vec![Lsn(end - 5)],
        };
        let chain = state.chains.entry(7).or_default();
        chain.base = Lsn(30);
        chain.versions = vec![version(10), version(60)];
        let leaving = |state: &State, written: &[(u64, Lsn)]| {
            let leaving = state.leaving(Lsn(40), Lsn(50), written);
            leaving.iter().map(|l| (l.0, l.1.0)).collect::<Vec<_>>()
        };
        assert_eq!(leaving(&state, &[]), []);
        state.readers = Arc::new(table(&[50]));
        assert_eq!(
            leaving(&state, &[]),
            [],
            "no reader is older than the written version"
        );
        state.readers = Arc::new(table(&[50, 29]));
        assert_eq!(leaving(&state, &[]), [(7, 10)]);
        assert_eq!(leaving(&state, &[(7, Lsn(30))]), [(7, 10)]);
    }
}
