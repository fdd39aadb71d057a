//! How often each kind of fault took effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kind of fault, counted where it can be noticed: not when it is planned or injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Power was cut, or the system or the process stopped.
    Cut,
    /// At a cut a write survived in part.
    TornWrite,
    /// At a cut a write was lost while a later one survived.
    Reordered,
    /// At a cut a write was lost altogether.
    LostWrite,
    /// At a cut a name that was made, or given to another file, and never synced, vanished.
    NameVanished,
    /// At a cut a name that was removed, and never synced, was there again.
    NameBack,
    /// A write answered with an error.
    WriteError,
    /// A barrier answered with an error.
    BarrierError,
    /// A read answered with an error of the medium once.
    ReadError,
    /// A call answered with an error that says nothing about the medium: no descriptors, no memory,
    /// no rights.
    ProcessError,
    /// A read answered fewer bytes than there were.
    ShortRead,
    /// A listing answered fewer names than there were.
    ShortListing,
    /// A call that makes, renames, removes, reserves, locks or syncs names answered with an error.
    OtherError,
    /// There was no space.
    NoSpace,
    /// The device's code panicked.
    Panic,
    /// A sector with a bit turned over was read.
    BitRot,
    /// A sector was read that the device reports as unreadable.
    Unreadable,
    /// A sector was read as it had been before.
    StaleRead,
    /// Another sector was read than was asked for.
    MisdirectedRead,
    /// A sector was read with bytes that were never written there.
    Forged,
}

impl FaultKind {
    /// All of them.
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

    /// A few words for a table.
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

/// The counts of a disk, over all its boots and snapshots.
#[derive(Debug, Clone, Default)]
pub struct FaultCounts(Arc<[AtomicU64; FaultKind::ALL.len()]>);

impl FaultCounts {
    pub(super) fn add(&self, kind: FaultKind, count: u64) {
        self.0[kind as usize].fetch_add(count, Relaxed);
    }

    /// How often it took effect.
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
