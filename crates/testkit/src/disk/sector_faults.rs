//! Faults that lie over sectors: the pristine bytes stay below, and come back when a fault is
//! lifted.

use super::counts::FaultKind;
use super::inode::{Inode, Sector};
use std::sync::Arc;

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

/// What a read of the sector gives.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    pub kind: FaultKind,
    /// `None`: an error.
    pub data: Option<Sector>,
}

impl Inode {
    /// Lays a fault over the sector at `offset`, on top of what lies there already.
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

impl Overlay {
    fn new(kind: FaultKind, data: Sector) -> Self {
        Overlay {
            kind,
            data: Some(data),
        }
    }
}
