//! Counts of the faults that took effect, by kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kind of fault. Faults are counted when they take effect, not when they are planned or injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Power was cut, or the system or the process stopped.
    Cut,
    /// A crash kept a write in part.
    TornWrite,
    /// A crash lost a write and kept a later one.
    Reordered,
    /// A crash lost a whole write.
    LostWrite,
    /// A crash lost a name that was created, or given to another file, and never synced.
    NameVanished,
    /// A crash restored a name that was removed without a sync.
    NameBack,
    /// A write returned an error.
    WriteError,
    /// A barrier returned an error.
    BarrierError,
    /// A read returned an error of the medium once.
    ReadError,
    /// A call returned an error that says nothing about the medium: no descriptors, no memory, no rights.
    ProcessError,
    /// A read returned fewer bytes than available.
    ShortRead,
    /// A listing returned fewer names than existed.
    ShortListing,
    /// A call that creates, renames, removes, reserves, locks or syncs returned an error.
    OtherError,
    /// There was no space.
    NoSpace,
    /// The device's code panicked.
    Panic,
    /// A read returned a sector with a flipped bit.
    BitRot,
    /// A read hit a sector that the device reports as unreadable.
    Unreadable,
    /// A read returned the earlier contents of a sector.
    StaleRead,
    /// A read returned another sector than requested.
    MisdirectedRead,
    /// A read returned bytes that were never written to the sector.
    Forged,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 20] = [
        FaultKind::Cut,
        FaultKind::TornWrite,
        FaultKind::Reordered,
        FaultKind::LostWrite,
        FaultKind::NameVanished,
        FaultKind::NameBack,
        FaultKind::WriteError,
        FaultKind::BarrierError,
        FaultKind::ReadError,
        FaultKind::ProcessError,
        FaultKind::ShortRead,
        FaultKind::ShortListing,
        FaultKind::OtherError,
        FaultKind::NoSpace,
        FaultKind::Panic,
        FaultKind::BitRot,
        FaultKind::Unreadable,
        FaultKind::StaleRead,
        FaultKind::MisdirectedRead,
        FaultKind::Forged,
    ];

    /// Returns a few words for a table.
    pub fn label(self) -> &'static str {
        match self {
            FaultKind::Cut => "cuts and crashes",
            FaultKind::TornWrite => "writes torn",
            FaultKind::Reordered => "writes lost, later ones kept",
            FaultKind::LostWrite => "writes lost",
            FaultKind::NameVanished => "unsynced names vanished",
            FaultKind::NameBack => "removed names back",
            FaultKind::WriteError => "write errors",
            FaultKind::BarrierError => "barrier errors",
            FaultKind::ReadError => "read errors",
            FaultKind::ProcessError => "errors that are not the medium's",
            FaultKind::ShortRead => "short reads",
            FaultKind::ShortListing => "short listings",
            FaultKind::OtherError => "errors of other calls",
            FaultKind::NoSpace => "no space",
            FaultKind::Panic => "panics of the device",
            FaultKind::BitRot => "reads of rotten bits",
            FaultKind::Unreadable => "reads of unreadable sectors",
            FaultKind::StaleRead => "stale reads",
            FaultKind::MisdirectedRead => "misdirected reads",
            FaultKind::Forged => "reads of forged bytes",
        }
    }
}

/// Counts of a disk, over all its boots and snapshots.
#[derive(Debug, Clone, Default)]
pub struct FaultCounts(Arc<[AtomicU64; FaultKind::ALL.len()]>);

impl FaultCounts {
    pub(super) fn add(&self, kind: FaultKind, count: u64) {
        self.0[kind as usize].fetch_add(count, Relaxed);
    }

    /// Returns how often faults of this kind took effect.
    pub fn get(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_place() {
        for (n, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, n);
        }
    }
}
