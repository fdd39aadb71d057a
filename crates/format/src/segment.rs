use crate::bytes::{
    are_zero, crc_with_hole, get_epoch, get_id, get_u16, get_u32, get_u64, put, put_epoch,
};
use crate::{Epoch, FORMAT_VERSION, LogId, Lsn};

/// Length of the used part of a segment header, in bytes.
pub const SEGMENT_HEADER_LEN: usize = 128;
/// Smallest write unit, in bytes.
pub const MIN_WRITE_UNIT: u32 = 512;
/// Largest write unit, in bytes.
pub const MAX_WRITE_UNIT: u32 = 64 << 10;
/// Smallest segment in bytes, including the header.
pub const MIN_SEGMENT_LEN: u64 = 16 << 10;
/// Largest segment, in bytes.
pub const MAX_SEGMENT_LEN: u64 = 4 << 30;

const MAGIC: &[u8; 6] = b"LFSEGM";

/// Header of a file that tells which part of the log the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Log of the segment.
    pub log_id: LogId,
    /// Position of the file's first byte.
    pub start: Lsn,
    /// Size of the file in bytes: the segment covers `[start, start + len)`.
    pub len: u64,
    /// Write unit in bytes: batches begin at multiples of it.
    pub write_unit: u32,
    /// Opening that prepared the segment.
    pub epoch: Epoch,
    /// True if the file's blocks were only reserved when it was prepared, so that its batches are the first
    /// data written to them. The guarantee of a write without a barrier depends on that.
    pub unwritten: bool,
}

/// Reason why bytes are not a segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentReject {
    /// The bytes do not begin with the magic bytes.
    #[error("no segment header")]
    Magic,
    /// The checksum is wrong.
    #[error("segment header checksum")]
    Checksum,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// Write unit, start or length is impossible.
    #[error("geometry")]
    Geometry,
}

crate::names::names!(SegmentReject: Magic, Checksum, Version, Reserved, Geometry);

impl SegmentHeader {
    /// Returns the exclusive end of the part of the log that the segment holds.
    pub fn end(&self) -> Lsn {
        self.start.plus(self.len)
    }

    /// Returns the number of bytes before the first batch: one write unit, at least 4096, so that no batch
    /// shares the header's sector or page.
    pub fn data_offset(write_unit: u32) -> u64 {
        u64::from(write_unit.max(4096))
    }

    /// Returns the position of the first batch.
    pub fn first_batch(&self) -> Lsn {
        self.start.plus(Self::data_offset(self.write_unit))
    }

    /// Returns true if `lsn` lies in this segment.
    pub fn contains(&self, lsn: Lsn) -> bool {
        lsn >= self.start && lsn < self.end()
    }

    /// Returns true if length and write unit are permitted, and such a segment can begin at `start`.
    pub fn geometry_is_valid(start: Lsn, len: u64, write_unit: u32) -> bool {
        write_unit.is_power_of_two()
            && (MIN_WRITE_UNIT..=MAX_WRITE_UNIT).contains(&write_unit)
            && (MIN_SEGMENT_LEN..=MAX_SEGMENT_LEN).contains(&len)
            && len.is_multiple_of(u64::from(write_unit))
            && len >= 2 * Self::data_offset(write_unit)
            && start.0.checked_add(len).is_some()
            // The first segment starts at 0, each later one at the end of its predecessor.
            && start.0.is_multiple_of(u64::from(MIN_WRITE_UNIT))
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut b = [0; SEGMENT_HEADER_LEN];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &self.write_unit.to_le_bytes());
        put(&mut b, 16, &self.log_id.0);
        put(&mut b, 32, &self.start.0.to_le_bytes());
        put(&mut b, 40, &self.len.to_le_bytes());
        put_epoch(&mut b, 48, self.epoch);
        b[64] = self.unwritten.into();
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Returns length and write unit from bytes that were not checked and may not even be a header. This is a
    /// guess, for callers with other proof.
    pub fn unchecked_geometry(bytes: &[u8]) -> (u64, u32) {
        match bytes.get(..SEGMENT_HEADER_LEN) {
            Some(b) => (get_u64(b, 40), get_u32(b, 12)),
            None => (0, 0),
        }
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, SegmentReject> {
        let Some(b) = bytes.get(..SEGMENT_HEADER_LEN) else {
            return Err(SegmentReject::Magic);
        };
        if &b[..6] != MAGIC {
            return Err(SegmentReject::Magic);
        }
        let checked = !crate::planted!("segment-header-checksum-ignored");
        if checked && get_u32(b, 8) != crc_with_hole(b, 8) {
            return Err(SegmentReject::Checksum);
        }
        let version = get_u16(b, 6);
        if version != FORMAT_VERSION {
            return Err(SegmentReject::Version(version));
        }
        if b[64] > 1 || !are_zero(&b[65..]) {
            return Err(SegmentReject::Reserved);
        }
        let h = SegmentHeader {
            log_id: get_id(b, 16),
            start: Lsn(get_u64(b, 32)),
            len: get_u64(b, 40),
            write_unit: get_u32(b, 12),
            epoch: get_epoch(b, 48),
            unwritten: b[64] == 1,
        };
        if !Self::geometry_is_valid(h.start, h.len, h.write_unit) {
            return Err(SegmentReject::Geometry);
        }
        Ok(h)
    }
}
