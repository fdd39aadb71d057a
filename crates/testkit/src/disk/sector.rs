//! Bytes of a sector, and faults that lie over them. The pristine bytes stay below, and appear again when the
//! fault is lifted.

use super::counts::FaultKind;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes of a sector: a part of a write, shared between layers, snapshots and boots.
#[derive(Debug, Clone)]
pub(super) struct Sector {
    whole: Arc<[u8]>,
    from: u32,
    len: u32,
}

impl Sector {
    /// Returns some bytes of a write.
    pub fn part(whole: &Arc<[u8]>, range: Range<usize>) -> Self {
        Sector {
            whole: whole.clone(),
            from: range.start as u32,
            len: range.len() as u32,
        }
    }
}

impl From<Vec<u8>> for Sector {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u32;
        Sector {
            whole: bytes.into(),
            from: 0,
            len,
        }
    }
}

impl Deref for Sector {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.whole[self.from as usize..][..self.len as usize]
    }
}

/// A fault that lies over a sector until the sector is written again, or the fault is
/// [lifted](crate::SimDisk::lift_faults).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectorFault {
    /// A bit is flipped: bit 0 to 7 of the byte at the injected offset.
    Flipped(u8),
    /// A read returns an error.
    Unreadable,
    /// A read returns the contents from before the last change on the medium: zeroes or older data. A lost
    /// write looks like this, long after.
    Stale,
    /// A read returns the bytes at this offset of the same file.
    Misdirected(u64),
    /// A read returns these bytes, cut to the sector or followed by its bytes.
    Forged(Arc<[u8]>),
}

/// Result of reading the sector.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    pub kind: FaultKind,
    /// Bytes that a read returns; `None` for an error.
    pub data: Option<Sector>,
}

impl Overlay {
    pub(super) fn new(kind: FaultKind, data: Sector) -> Self {
        Overlay {
            kind,
            data: Some(data),
        }
    }
}
