//! One file: its data on the medium, in the device's volatile cache and in the system's cache.

use super::counts::{FaultCounts, FaultKind};
use super::options::Rules;
use super::sector::{Overlay, Sector, SectorFault};
use super::write_back::WriteBackErrors;
use crate::Rng;
use logforce_device::Blocks;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// One write's bytes for a sector, not yet on the medium.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// Number of the write. Later writes have higher numbers.
    pub write: u64,
    pub data: Sector,
    /// True if it overwrites written blocks in place. Then its survival depends only on the device, not on
    /// metadata.
    pub placed: bool,
    /// True if the device zeroed the sector. Metadata records that the sector is written, unless that was known
    /// before.
    pub zeroed: bool,
}

/// A sector in the system's cache.
#[derive(Debug, Clone)]
pub(super) struct Cached {
    pub data: Sector,
    /// Versions written since the last write-back, oldest first. The system may have written back any of
    /// them. If empty, the sector is clean, *but perhaps differs from the device's* after a failed barrier.
    /// Other clean sectors equal the device's and are not kept.
    pub dirty: Vec<Version>,
}

/// Way in which a write is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub write: u64,
    pub direct: bool,
    pub through: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub sector: u64,
    pub zero: Sector,
    pub size: u64,
    pub stable_size: u64,
    /// Sizes since the stable one, with the number of the write that made them.
    pub sizes: Vec<(u64, u64)>,
    /// Sectors on the medium; a missing one is zero and unwritten.
    pub stable: BTreeMap<u64, Sector>,
    /// Versions in the device's volatile cache, oldest first.
    pub device: BTreeMap<u64, Vec<Version>>,
    pub cache: BTreeMap<u64, Cached>,
    /// Sector below which all sectors have blocks.
    pub reserved: u64,
    /// Further sectors that have blocks.
    pub allocated: BTreeSet<u64>,
    /// Contents of sectors on the medium before their last change.
    pub before: BTreeMap<u64, Sector>,
    /// Faults over sectors, until they are written again.
    pub overlays: BTreeMap<u64, Overlay>,
    pub write_back_errors: WriteBackErrors,
}

impl Inode {
    pub fn new(sector: u64, zero: Sector) -> Self {
        Inode {
            sector,
            zero,
            size: 0,
            stable_size: 0,
            sizes: Vec::new(),
            stable: BTreeMap::new(),
            device: BTreeMap::new(),
            cache: BTreeMap::new(),
            reserved: 0,
            allocated: BTreeSet::new(),
            before: BTreeMap::new(),
            overlays: BTreeMap::new(),
            write_back_errors: WriteBackErrors::default(),
        }
    }

    /// Returns the offset of the first byte with a block, from `offset` on.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let first = offset / self.sector;
        let reserved = (first < self.reserved).then_some(first);
        let first_of = [
            reserved,
            self.allocated.range(first..).next().copied(),
            self.stable.range(first..).next().map(|(n, _)| *n),
            self.device.range(first..).next().map(|(n, _)| *n),
            self.cache.range(first..).next().map(|(n, _)| *n),
            self.overlays.range(first..).next().map(|(n, _)| *n),
        ];
        let found = first_of.into_iter().flatten().min()? * self.sector;
        Some(found.max(offset)).filter(|at| *at < self.size)
    }

    /// Returns the state of a range of bytes for a write to it. With `late`, bytes that are only in the cache have
    /// no blocks yet.
    pub fn blocks_in(&self, range: Range<u64>, late: bool) -> Blocks {
        let sectors = self.sectors(range);
        // Blocks that a failed barrier has left only in the cache do not count.
        let is_dirty = |n: &u64| self.cache.get(n).is_some_and(|c| !c.dirty.is_empty());
        let is_on_device = |n: &u64| self.stable.contains_key(n) || self.device.contains_key(n);
        let is_written = |n: &u64| is_on_device(n) || is_dirty(n);
        let is_late = |n: u64| late && n >= self.reserved && is_dirty(&n) && !is_on_device(&n);
        if self.unallocated(sectors.clone()) > 0 || sectors.clone().any(is_late) {
            Blocks::Missing
        } else if sectors.clone().all(|n| is_written(&n)) {
            Blocks::Written
        } else {
            Blocks::Reserved
        }
    }

    /// Turns the file into a copy that leaves zeroes out: durable, and without blocks for them.
    pub fn copy_sparsely(&mut self) {
        self.write_back_all(Rules {
            in_place: true,
            cache_through: false,
            lie: false,
        });
        self.commit_all(true);
        self.commit_size();
        self.cache.clear();
        self.before.clear();
        self.stable.retain(|_, data| data.iter().any(|b| *b != 0));
        self.reserved = 0;
        self.allocated = self.stable.keys().copied().collect();
    }

    /// Turns the file into a copy that shares all blocks with another one: each write needs new ones.
    pub fn copy_by_reference(&mut self) {
        self.copy_sparsely();
        self.allocated.clear();
    }

    /// Returns the sectors that a range of bytes touches.
    pub fn sectors(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.sector..range.end.div_ceil(self.sector)
    }

    pub fn on_device(&self, n: u64) -> &Sector {
        if let Some(Overlay {
            data: Some(data), ..
        }) = self.overlays.get(&n)
        {
            return data;
        }
        let volatile = self.device.get(&n).and_then(|v| v.last()).map(|v| &v.data);
        volatile
            .or_else(|| self.stable.get(&n))
            .unwrap_or(&self.zero)
    }

    fn visible(&self, n: u64) -> &Sector {
        self.cache
            .get(&n)
            .map_or_else(|| self.on_device(n), |c| &c.data)
    }

    /// Reads bytes from `offset` up to the end of the file, from the cache or from the device. Returns `None`
    /// if the device cannot read them.
    pub fn read(
        &self,
        offset: u64,
        buf: &mut [u8],
        cached: bool,
        faults: &FaultCounts,
    ) -> Option<usize> {
        let len = (buf.len() as u64).min(self.size.saturating_sub(offset)) as usize;
        let sectors = self.sectors(offset..offset + len as u64);
        for (n, overlay) in self.overlays.range(sectors.clone()) {
            if !(cached && self.cache.contains_key(n)) {
                faults.add(overlay.kind, 1);
                overlay.data.as_ref()?;
            }
        }
        // Copies layer by layer, from the medium upwards. Searching every layer for each sector would be
        // slower, and random runs spend most of their time in reads.
        let buf = &mut buf[..len];
        let lay_over = |buf: &mut [u8], n: u64, data: &Sector| {
            let start = n * self.sector;
            let from = start.max(offset);
            let to = (start + self.sector).min(offset + len as u64);
            let place = (from - offset) as usize..(to - offset) as usize;
            buf[place.clone()].copy_from_slice(&data[(from - start) as usize..][..place.len()]);
            place
        };
        let mut filled = 0;
        for (n, data) in self.stable.range(sectors.clone()) {
            let place = lay_over(buf, *n, data);
            buf[filled..place.start].fill(0);
            filled = place.end;
        }
        buf[filled..].fill(0);
        for (n, versions) in self.device.range(sectors.clone()) {
            let newest = versions.last().expect("never empty");
            lay_over(buf, *n, &newest.data);
        }
        for (n, overlay) in self.overlays.range(sectors.clone()) {
            if let Some(data) = &overlay.data {
                lay_over(buf, *n, data);
            }
        }
        if cached {
            for (n, cached) in self.cache.range(sectors) {
                lay_over(buf, *n, &cached.data);
            }
        }
        Some(len)
    }

    /// Returns the number of sectors in a range that have no blocks yet.
    pub fn unallocated(&self, sectors: Range<u64>) -> u64 {
        sectors
            .filter(|n| *n >= self.reserved && !self.allocated.contains(n))
            .count() as u64
    }

    /// Returns the number of sectors that have blocks.
    pub fn blocks(&self) -> u64 {
        self.reserved + self.allocated.range(self.reserved..).count() as u64
    }

    pub fn grow(&mut self, write: u64, size: u64) {
        if size > self.size {
            self.size = size;
            self.sizes.push((write, size));
        }
    }

    /// Writes the sectors of a range that `keep` selects (all of them, unless the write fails).
    pub fn write(
        &mut self,
        offset: u64,
        bytes: &Arc<[u8]>,
        how: How,
        rules: Rules,
        mut keep: impl FnMut(u64) -> bool,
    ) {
        let end = offset + bytes.len() as u64;
        for n in self.sectors(offset..end) {
            if !keep(n) {
                continue;
            }
            let start = n * self.sector;
            let (from, to) = (start.max(offset), (start + self.sector).min(end));
            let part = (from - offset) as usize..(to - offset) as usize;
            let data = if to - from == self.sector {
                Sector::part(bytes, part)
            } else {
                let mut whole = self.visible(n).to_vec();
                whole[(from - start) as usize..(to - start) as usize].copy_from_slice(&bytes[part]);
                whole.into()
            };
            if n >= self.reserved {
                self.allocated.insert(n);
            }
            // A part of the write survives a crash only with a size that covers it.
            self.grow(how.write, to);
            let version = Version {
                write: how.write,
                data,
                placed: false,
                zeroed: false,
            };
            if how.direct {
                // Like Linux, writes dirty pages to the device first, then drops them.
                self.write_back(n, rules);
                self.cache.remove(&n);
                self.reach_device(n, version, rules);
            } else {
                let cached = self.cache.entry(n).or_insert_with(|| Cached {
                    data: version.data.clone(),
                    dirty: Vec::new(),
                });
                cached.data = version.data.clone();
                cached.dirty.push(version);
                if how.through {
                    self.write_back(n, rules);
                }
            }
            if how.through && !rules.lie {
                self.commit(n);
                self.stable_size = self.stable_size.max(to);
            }
        }
    }

    /// Has the device zero whole sectors.
    pub fn zero(&mut self, sectors: Range<u64>, write: u64, rules: Rules) {
        self.grow(write, sectors.end * self.sector);
        for n in sectors {
            if n >= self.reserved {
                self.allocated.insert(n);
            }
            self.cache.remove(&n);
            let version = Version {
                write,
                data: self.zero.clone(),
                placed: false,
                zeroed: true,
            };
            self.reach_device(n, version, rules);
        }
    }

    fn reach_device(&mut self, n: u64, mut version: Version, rules: Rules) {
        self.overlays.remove(&n);
        version.placed =
            rules.in_place && self.stable.contains_key(&n) && n * self.sector < self.stable_size;
        let done = version.placed && rules.cache_through;
        self.device.entry(n).or_default().push(version);
        if done {
            self.commit(n);
        }
    }

    /// Hands a sector's dirty bytes to the device.
    pub fn write_back(&mut self, n: u64, rules: Rules) {
        if self.cache.get(&n).is_some_and(|c| !c.dirty.is_empty()) {
            let cached = self.cache.remove(&n).expect("looked up just now");
            for version in cached.dirty {
                self.reach_device(n, version, rules);
            }
        }
    }

    fn dirty(&self) -> Vec<u64> {
        let dirty = self.cache.iter().filter(|(_, c)| !c.dirty.is_empty());
        dirty.map(|(n, _)| *n).collect()
    }

    pub fn write_back_all(&mut self, rules: Rules) {
        for n in self.dirty() {
            self.write_back(n, rules);
        }
    }

    /// Moves the device's volatile bytes of a sector to the medium.
    fn commit(&mut self, n: u64) {
        if let Some(version) = self.device.remove(&n).and_then(|mut v| v.pop()) {
            self.store_on_medium(n, version.data);
        }
    }

    /// Changes a sector on the medium.
    pub fn store_on_medium(&mut self, n: u64, data: Sector) {
        if let Some(before) = self.stable.insert(n, data) {
            self.before.insert(n, before);
        }
    }

    /// Moves the device's volatile bytes of this file to the medium. Without `metadata`, leaves out the zeroes
    /// that only metadata tells from sectors that were never written: a read returns the same without it.
    pub fn commit_all(&mut self, metadata: bool) {
        for (n, versions) in std::mem::take(&mut self.device) {
            let last = versions.last().expect("never empty");
            if last.zeroed && !last.placed && !metadata {
                self.device.insert(n, versions);
            } else {
                self.store_on_medium(n, last.data.clone());
            }
        }
    }

    pub fn commit_size(&mut self) {
        self.stable_size = self.size;
        self.sizes.clear();
    }

    /// Applies a failed barrier. As on Linux, dirty pages are clean afterwards, even if the device did not
    /// get them. The device may also drop the contents of its cache.
    pub fn fail_barrier(&mut self, rng: &mut Rng, rules: Rules) {
        let lost_in_16 = rng.pick(&[16, 8, 2]);
        let dirty = self.dirty();
        // The other open files get a report too, also of what the device drops. Linux reports a failed flush to
        // its caller alone, and no program can notice that another program's flush has failed.
        if !dirty.is_empty() || !self.device.is_empty() {
            self.write_back_errors.add();
        }
        for n in dirty {
            let data = self.cache[&n].data.clone();
            if rng.below(16) >= lost_in_16 {
                self.write_back(n, rules);
            }
            // Keeps the page even if the device got it, because the device may drop it below.
            self.cache.insert(
                n,
                Cached {
                    data,
                    dirty: Vec::new(),
                },
            );
        }
        if rng.one_in(2) {
            self.device.retain(|_, _| rng.below(16) >= lost_in_16);
        }
    }

    /// Loses what the sectors have in the system's cache only. They stay visible, and count as clean.
    /// Returns the number of sectors that were dirty.
    pub fn fail_write_back(&mut self, sectors: Range<u64>) -> usize {
        let dirty = self.cache.range_mut(sectors);
        let dirty = dirty.filter(|(_, cached)| !cached.dirty.is_empty());
        let lost = dirty.map(|(_, cached)| cached.dirty.clear()).count();
        if lost > 0 {
            self.write_back_errors.add();
        }
        lost
    }

    /// Drops clean cached sectors.
    pub fn drop_cache(&mut self, sectors: Range<u64>) {
        self.cache
            .retain(|n, c| !sectors.contains(n) || !c.dirty.is_empty());
    }
}

impl Inode {
    /// Lays a fault over the sector at `offset`, on top of earlier faults.
    pub fn inject(&mut self, offset: u64, fault: &SectorFault) {
        let (n, at) = (offset / self.sector, (offset % self.sector) as usize);
        let overlay = match fault {
            SectorFault::Flipped(bit) => {
                let mut data = self.on_device(n).to_vec();
                data[at] ^= 1 << (bit % 8);
                Overlay::new(FaultKind::BitRot, data.into())
            }
            SectorFault::Unreadable => Overlay {
                kind: FaultKind::Unreadable,
                data: None,
            },
            SectorFault::Stale => {
                let before = self.before.get(&n).unwrap_or(&self.zero);
                Overlay::new(FaultKind::StaleRead, before.clone())
            }
            SectorFault::Misdirected(from) => {
                let other = self.on_device(from / self.sector).clone();
                Overlay::new(FaultKind::MisdirectedRead, other)
            }
            SectorFault::Forged(bytes) => {
                let mut data = self.on_device(n).to_vec();
                let len = bytes.len().min(data.len());
                data[..len].copy_from_slice(&bytes[..len]);
                Overlay::new(FaultKind::Forged, data.into())
            }
        };
        self.overlays.insert(n, overlay);
    }
}
