//! A sector's bytes, and faults that lie over them: the pristine bytes stay below, and come back when a
//! fault is lifted.

use super::counts::FaultKind;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The bytes of a sector, shared between layers, snapshots and boots: a part of what was written.
#[derive(Debug, Clone)]
pub(super) struct Sector {
    whole: Arc<[u8]>,
    from: u32,
    len: u32,
}

impl Sector {
    /// Some bytes of a write.
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
    /// A bit has turned over: bit 0 to 7 of the byte at the offset that is given with it.
    Flipped(u8),
    /// The device reports an error on reading.
    Unreadable,
    /// Reading gives what the sector held before it last changed on the medium: zeroes, or older
    /// data. A write that was lost looks like that, long after.
    Stale,
    /// Reading gives what lies at this offset of the same file.
    Misdirected(u64),
    /// Reading gives these bytes, cut or filled up with what is there.
    Forged(Arc<[u8]>),
}

/// Result of reading the sector.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    pub kind: FaultKind,
    /// `None`: an error.
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
