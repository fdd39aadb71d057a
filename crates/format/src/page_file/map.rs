//! Sectors of a logged page file's map: the pages that were ever written, and their checksums.

use crate::bytes::{are_zero, crc_with_hole, get_u32, put};
use crate::planted;

/// Length of a sector of the map, in bytes.
pub const MAP_SECTOR_LEN: usize = 512;
/// Number of pages that one sector covers.
pub const MAP_SECTOR_ENTRIES: usize = (MAP_SECTOR_LEN - HEADER_LEN) / ENTRY_LEN;

const HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 8;
const PRESENT: u32 = 1;
const DROPPED: u32 = 2;

/// State of a page in the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapEntry {
    /// The page was never written, or its bytes were cleared: it is all zeroes.
    #[default]
    Absent,
    /// The page was written.
    Present {
        /// CRC-32C of the page's number and its bytes; 0 in a file without checksums.
        crc: u32,
    },
    /// The page lies behind the end of the file, which was shortened. It may hold any bytes.
    Dropped,
}

impl MapEntry {
    /// Returns the entry of a page with these bytes.
    pub fn of(page: u64, bytes: &[u8]) -> MapEntry {
        MapEntry::Present {
            crc: page_crc(page, bytes),
        }
    }
}

/// Returns the CRC-32C of a page's number and its bytes. The number reveals a page that was written to
/// another page's place, or read from there.
pub fn page_crc(page: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page.to_le_bytes()), bytes)
}

/// Sector of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSector {
    /// Entries of its pages.
    pub entries: [MapEntry; MAP_SECTOR_ENTRIES],
}

impl Default for MapSector {
    fn default() -> Self {
        MapSector {
            entries: [MapEntry::Absent; MAP_SECTOR_ENTRIES],
        }
    }
}

/// Reason why a sector is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MapReject {
    /// The checksum is wrong.
    #[error("checksum of the map's sector")]
    Checksum,
    /// The sector belongs elsewhere.
    #[error("another sector of the map, {0}")]
    Misplaced(u32),
    /// An entry is impossible.
    #[error("an impossible entry in the map")]
    Entry,
}

crate::names::names!(MapReject: Checksum, Misplaced, Entry);

impl MapSector {
    /// Returns the bytes of the sector with this number.
    pub fn encode(&self, number: u64) -> [u8; MAP_SECTOR_LEN] {
        let mut b = [0; MAP_SECTOR_LEN];
        put(&mut b, 4, &low_bits(number).to_le_bytes());
        for (i, entry) in self.entries.iter().enumerate() {
            let (kind, crc) = match entry {
                MapEntry::Absent => continue,
                MapEntry::Present { crc } => (PRESENT, *crc),
                MapEntry::Dropped => (DROPPED, 0),
            };
            let at = HEADER_LEN + i * ENTRY_LEN;
            put(&mut b, at, &kind.to_le_bytes());
            put(&mut b, at + 4, &crc.to_le_bytes());
        }
        let crc = crc_with_hole(&b, 0);
        put(&mut b, 0, &crc.to_le_bytes());
        b
    }

    /// Reads the sector with this number. A sector of zeroes was never written: its pages are absent.
    pub fn decode(b: &[u8; MAP_SECTOR_LEN], number: u64) -> Result<MapSector, MapReject> {
        if are_zero(b) {
            return Ok(MapSector::default());
        }
        let fits =
            planted!("page-map-checksum-ignored", true, else get_u32(b, 0) == crc_with_hole(b, 0));
        if !fits {
            return Err(MapReject::Checksum);
        }
        let found = get_u32(b, 4);
        if found != low_bits(number) {
            return Err(MapReject::Misplaced(found));
        }
        let mut sector = MapSector::default();
        for (i, entry) in sector.entries.iter_mut().enumerate() {
            let at = HEADER_LEN + i * ENTRY_LEN;
            let crc = get_u32(b, at + 4);
            *entry = match (get_u32(b, at), crc) {
                (0, 0) => MapEntry::Absent,
                (PRESENT, crc) => MapEntry::Present { crc },
                (DROPPED, 0) => MapEntry::Dropped,
                _ => return Err(MapReject::Entry),
            };
        }
        Ok(sector)
    }
}

/// Returns the part of a sector's number that is stored, from 1: no sector has 0.
fn low_bits(number: u64) -> u32 {
    (number % u64::from(u32::MAX)) as u32 + 1
}
