//! A naive engine on a durable file as the subject: fixed slots with version and checksum, which threads
//! overwrite in place by every call that commits.
//!
//! The contents of a slot are a function of its version. So the check knows each byte that an acknowledged
//! version must have, and each one that a version may have that was begun and not acknowledged.

mod check;
mod cuts;
mod subject;

pub use check::{Promises, check};
pub use cuts::run;
pub use subject::run as work;

use crate::subject::seam::Fault;
use logforce_testkit::Rng;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Threads that commit.
pub const THREADS: usize = 5;
/// Number of slots of each thread.
const SLOTS: u64 = 24;
/// Number of slots of each thread, out of [`SLOTS`], that share pages of the system's cache with others.
const DENSE: u64 = 8;
/// Distance of the other slots, bytes: pages that are far apart are not written out together.
const STRIDE: u64 = 40_000;

/// Layout of the file, by the writes that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// Slots of 1000 bytes, anywhere.
    Unaligned,
    /// Slots of whole pages, written through the system's cache.
    Aligned,
    /// Slots of whole pages, written past the cache.
    Direct,
}

impl Layout {
    /// All layouts, with their names.
    pub const ALL: [(&str, Layout); 3] = [
        ("unaligned", Layout::Unaligned),
        ("aligned", Layout::Aligned),
        ("direct", Layout::Direct),
    ];

    fn is_aligned(self) -> bool {
        self != Layout::Unaligned
    }

    /// Returns the length of a slot, bytes.
    fn slot_len(self) -> usize {
        match self.is_aligned() {
            true => 4096,
            false => 1000,
        }
    }

    /// Returns the offset of a slot. Slots come in pairs without a gap.
    fn offset(self, thread: usize, slot: u64) -> u64 {
        let len = self.slot_len() as u64;
        let pair = slot / 2 * THREADS as u64 + thread as u64;
        let of_pair = match slot < DENSE {
            true => pair * 2 * len,
            false => (pair * STRIDE).next_multiple_of(len),
        };
        of_pair + slot % 2 * len
    }

    /// Returns the end of the last slot.
    fn end(self) -> u64 {
        self.offset(THREADS - 1, SLOTS - 1) + self.slot_len() as u64
    }
}

/// Job of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Directory of the file.
    pub dir: PathBuf,
    /// Empty ledger for what it was promised.
    pub ledger: PathBuf,
    /// Layout of the file.
    pub layout: Layout,
    /// True if the file grows by writes, false if all of it is prepared first.
    pub grows: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Fault of the system below it.
    pub fault: Fault,
}

/// Returns the contents of a slot: version, checksum, and bytes that depend on both. Version 0 is a slot that
/// was never written.
fn contents(thread: usize, slot: u64, version: u64, len: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; len];
    }
    let mut rng = Rng::new(version ^ (slot << 40) ^ ((thread as u64) << 50));
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.resize(16, 0);
    while bytes.len() < len {
        bytes.extend(rng.bits().to_le_bytes());
    }
    bytes.truncate(len);
    let checksum = u64::from(crc32c::crc32c(&bytes));
    bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the version in a slot, whole or torn. No piece of a torn write is smaller than these bytes.
fn version_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap() {
        for (name, layout) in Layout::ALL {
            let slots = (0..THREADS).flat_map(|t| (0..SLOTS).map(move |s| layout.offset(t, s)));
            let mut offsets: Vec<_> = slots.collect();
            offsets.sort_unstable();
            let len = layout.slot_len() as u64;
            assert!(offsets.windows(2).all(|o| o[0] + len <= o[1]), "{name}");
            // Otherwise a piece of the disk could tear the version.
            assert!(offsets.iter().all(|o| o % 8 == 0), "{name}");
            assert_eq!(offsets.last().map(|o| o + len), Some(layout.end()));
        }
    }
}
