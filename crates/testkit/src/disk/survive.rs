//! Contents of files after a crash.

use super::counts::{FaultCounts, FaultKind};
use super::inode::{Inode, Version};
use super::plan::{Failure, Survival};
use crate::Rng;
use crate::rng::mix;
use std::collections::BTreeMap;

/// Numbers of sectors of each write that survived a crash, and that did not.
#[derive(Default)]
pub(super) struct Fates(BTreeMap<u64, (u64, u64)>);

impl Fates {
    fn note(&mut self, write: u64, kept: bool) {
        let fate = self.0.entry(write).or_default();
        fate.0 += u64::from(kept);
        fate.1 += u64::from(!kept);
    }

    pub fn count(&self, faults: &FaultCounts) {
        let last_kept = self.0.iter().rev().find(|(_, fate)| fate.0 > 0);
        for (write, (kept, lost)) in &self.0 {
            let kind = match (kept, lost) {
                (_, 0) => continue,
                (1.., _) => FaultKind::TornWrite,
                _ if last_kept.is_some_and(|(last, _)| last > write) => FaultKind::Reordered,
                _ => FaultKind::LostWrite,
            };
            faults.add(kind, 1);
        }
    }
}

/// Choices of one crash, which apply to all files.
pub(super) struct Survivors {
    failure: Failure,
    survival: Survival,
    /// Number of the last write that is kept, for `Prefix`.
    last: u64,
    /// Random number that decides on each write, for `Writes`.
    salt: u64,
    /// Number of sixteenths that are kept, for `Writes` and `Sectors`.
    kept_in_16: u64,
}

impl Survivors {
    pub fn new(
        failure: Failure,
        survival: Survival,
        writes: std::ops::Range<u64>,
        rng: &mut Rng,
    ) -> Self {
        Survivors {
            failure,
            survival,
            last: writes.start + rng.below(writes.end - writes.start + 1),
            salt: rng.bits(),
            kept_in_16: rng.pick(&[2, 8, 8, 14]),
        }
    }

    fn keeps_write(&self, write: u64) -> bool {
        match self.survival {
            Survival::Lost => false,
            Survival::Kept => true,
            Survival::Prefix => write <= self.last,
            Survival::Writes | Survival::Sectors => mix(self.salt ^ write) % 16 < self.kept_in_16,
        }
    }

    /// Returns the version of a sector that survives, or `None` for the one on the medium.
    fn choose<'a>(&self, versions: &'a [Version], rng: &mut Rng) -> Option<&'a Version> {
        match self.survival {
            // Any version may survive, not only the newest: each was on its way to the medium at some time.
            Survival::Sectors if rng.below(16) < self.kept_in_16 => {
                Some(&versions[rng.below(versions.len() as u64) as usize])
            }
            Survival::Sectors => None,
            _ => versions.iter().rev().find(|v| self.keeps_write(v.write)),
        }
    }

    /// Turns a file into its state after the crash. Writes in flight were applied to it before without being
    /// durable.
    pub fn of(&self, inode: &mut Inode, rng: &mut Rng, fates: &mut Fates) {
        let kept_size = inode.sizes.iter().rev().find(|(w, _)| self.keeps_write(*w));
        let size = match self.survival {
            Survival::Sectors if !inode.sizes.is_empty() && rng.one_in(2) => {
                inode.sizes[rng.below(inode.sizes.len() as u64) as usize].1
            }
            _ => kept_size.map_or(0, |(_, size)| *size),
        };
        let size = size.max(inode.stable_size);

        let mut versions = std::mem::take(&mut inode.device);
        for (n, cached) in std::mem::take(&mut inode.cache) {
            if !cached.dirty.is_empty() {
                versions.entry(n).or_default().extend(cached.dirty);
            }
        }
        for (n, versions) in versions {
            let mut open = &versions[..];
            if self.failure == Failure::Os
                && let Some(held) = versions.iter().rposition(|v| v.placed)
            {
                // The device keeps its power, so only data that it never received can be lost.
                inode.store_on_medium(n, versions[held].data.clone());
                open = &versions[held + 1..];
            }
            let Some(last) = open.last() else { continue };
            let chosen = self.choose(open, rng);
            fates.note(last.write, chosen.is_some_and(|v| v.write == last.write));
            if let Some(version) = chosen {
                inode.store_on_medium(n, version.data.clone());
            }
        }
        set_size(inode, size);
    }
}

/// Sets the durable size. Fills the rest behind the end with zeroes, which a filesystem returns if the file
/// grows again.
pub(super) fn set_size(inode: &mut Inode, size: u64) {
    inode.size = size;
    inode.commit_size();
    let (last, rest) = (size / inode.sector, (size % inode.sector) as usize);
    let end = size.div_ceil(inode.sector);
    inode.stable.split_off(&end);
    if rest > 0
        && let Some(data) = inode.stable.get_mut(&last)
        && data[rest..].iter().any(|b| *b != 0)
    {
        let mut whole = data.to_vec();
        whole[rest..].fill(0);
        *data = whole.into();
    }
    inode.reserved = inode.reserved.min(end);
    inode.allocated = inode
        .stable
        .range(inode.reserved..)
        .map(|(n, _)| *n)
        .collect();
}
