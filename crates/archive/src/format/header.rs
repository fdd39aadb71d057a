//! Header of an object: readable without the key, at fixed offsets.

use super::reject::Reject;
use crate::key::Epoch;
use crate::object::Nonce;
use logforce::{LogId, Lsn};

/// Version of the format of the objects. No other version is read.
pub const ARCHIVE_FORMAT_VERSION: u16 = 1;
/// Length of the header in bytes. The magic, the version, the checksum and this length stay as they are in
/// all versions, so that a reader can distinguish a newer object from a damaged one.
pub const HEADER_LEN: usize = 160;

const MAGIC: &[u8; 6] = b"LFARCH";
const CHECKSUM_AT: usize = 8;
const PAYLOAD_CHECKSUM_AT: usize = 112;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    /// Identity of the archive.
    Identity = 1,
    /// Chunk of the log.
    Chunk = 2,
    /// Seal of an epoch.
    Seal = 3,
    /// Floor of an epoch.
    Floor = 4,
    /// Whole segment.
    Segment = 5,
    /// Mark with a name.
    Mark = 6,
    /// Exclusive end of what was deleted on purpose.
    Pruned = 7,
    /// Newest known epoch.
    Hint = 8,
    /// Base copy of a page file.
    Base = 9,
    /// Part of a base copy.
    Part = 10,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Identity,
        Kind::Chunk,
        Kind::Seal,
        Kind::Floor,
        Kind::Segment,
        Kind::Mark,
        Kind::Pruned,
        Kind::Hint,
        Kind::Base,
        Kind::Part,
    ];

    /// Returns true if the payload is a part of the log.
    pub fn has_log(self) -> bool {
        matches!(self, Kind::Chunk | Kind::Segment)
    }

    /// Returns true if the payload is more than a note: a part of the log, or pages.
    pub fn has_body(self) -> bool {
        self.has_log() || self == Kind::Part
    }
}

/// Facts about an object that its header states. A kind that has no use for a field has a zero there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Head {
    /// Kind of the object.
    pub kind: Kind,
    /// Log of the archive.
    pub log_id: LogId,
    /// Epoch of the archive: of the writer, or the newest one in a hint.
    pub epoch: Epoch,
    /// Place within the epoch; the lowest place that counts in a floor.
    pub place: u64,
    /// Nonce of the writer; of the next owner in a seal.
    pub nonce: Nonce,
    /// First byte of the log in the object, or the position of which it speaks.
    pub from: Lsn,
    /// Exclusive end of the log in the object; equal to `from` if it holds none.
    pub to: Lsn,
    /// Front of the log when the object was made.
    pub front: Lsn,
    /// Time of the object, the latest one of a segment: nanoseconds since 1970.
    pub time: u64,
    /// Place below which each place was seen to hold a chunk.
    pub settled: u64,
}

/// Stored form of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// Length of the payload before compression and encryption.
    pub body_len: u64,
    /// Length of the bytes behind the header.
    pub stored_len: u64,
    /// CRC-32C of the bytes behind the header.
    pub checksum: u32,
    /// True if the payload is compressed.
    pub is_compressed: bool,
    /// Random number of which key and nonce of the encryption are derived.
    pub seed: Option<[u8; 24]>,
}

/// Returns the header with zeroes for both checksums: the form that encryption authenticates.
pub(super) fn bare(head: &Head, stored: &Stored) -> [u8; HEADER_LEN] {
    let mut b = [0; HEADER_LEN];
    put(&mut b, 0, MAGIC);
    put(&mut b, 6, &ARCHIVE_FORMAT_VERSION.to_le_bytes());
    let compressed = if stored.is_compressed { COMPRESSED } else { 0 };
    let encrypted = if stored.seed.is_some() { ENCRYPTED } else { 0 };
    put(&mut b, 12, &[head.kind as u8, compressed | encrypted]);
    put(&mut b, 16, &head.log_id.0);
    put(&mut b, 32, &head.epoch.0.to_le_bytes());
    put(&mut b, 40, &head.place.to_le_bytes());
    put(&mut b, 48, &head.nonce.0.to_le_bytes());
    put(&mut b, 64, &head.from.0.to_le_bytes());
    put(&mut b, 72, &head.to.0.to_le_bytes());
    put(&mut b, 80, &head.front.0.to_le_bytes());
    put(&mut b, 88, &head.time.to_le_bytes());
    put(&mut b, 96, &stored.body_len.to_le_bytes());
    put(&mut b, 104, &stored.stored_len.to_le_bytes());
    put(&mut b, 144, &head.settled.to_le_bytes());
    put(&mut b, 120, &stored.seed.unwrap_or_default());
    b
}

/// Adds both checksums to a bare header.
pub(super) fn finish(mut b: [u8; HEADER_LEN], payload_checksum: u32) -> [u8; HEADER_LEN] {
    put(&mut b, PAYLOAD_CHECKSUM_AT, &payload_checksum.to_le_bytes());
    let checksum = crc32c::crc32c(&b);
    put(&mut b, CHECKSUM_AT, &checksum.to_le_bytes());
    b
}

/// Reads a header.
pub(super) fn decode(bytes: &[u8]) -> Result<(Head, Stored), Reject> {
    let is_magic = |b: &[u8]| b.starts_with(MAGIC);
    let Some((b, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(if is_magic(bytes) || bytes.len() < MAGIC.len() {
            Reject::Length {
                len: bytes.len() as u64,
                expected: HEADER_LEN as u64,
            }
        } else {
            Reject::Magic
        });
    };
    if !is_magic(b) {
        return Err(Reject::Magic);
    }
    let mut zeroed = *b;
    put(&mut zeroed, CHECKSUM_AT, &[0; 4]);
    if crc32c::crc32c(&zeroed) != u32::from_le_bytes(get(b, CHECKSUM_AT)) {
        return Err(Reject::HeaderChecksum);
    }
    let version = u16::from_le_bytes(get(b, 6));
    if version != ARCHIVE_FORMAT_VERSION {
        return Err(Reject::Version(version));
    }
    let flags = b[13];
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == b[12]);
    let (Some(kind), true) = (kind, flags <= (COMPRESSED | ENCRYPTED)) else {
        return Err(Reject::Reserved);
    };
    let seed: [u8; 24] = get(b, 120);
    let is_encrypted = flags & ENCRYPTED != 0;
    let reserved = [&b[14..16], &b[116..120], &b[152..]].concat();
    if reserved.iter().any(|x| *x != 0) || (!is_encrypted && seed != [0; 24]) {
        return Err(Reject::Reserved);
    }
    let number = |at| u64::from_le_bytes(get(b, at));
    let head = Head {
        kind,
        log_id: LogId(get(b, 16)),
        epoch: Epoch(number(32)),
        place: number(40),
        nonce: Nonce(u128::from_le_bytes(get(b, 48))),
        from: Lsn(number(64)),
        to: Lsn(number(72)),
        front: Lsn(number(80)),
        time: number(88),
        settled: number(144),
    };
    let has_range = head.to > head.from;
    let may_differ = kind == Kind::Base;
    if head.to < head.from || (has_range != kind.has_log() && !may_differ) {
        return Err(Reject::Contradiction);
    }
    let stored = Stored {
        body_len: number(96),
        stored_len: number(104),
        checksum: u32::from_le_bytes(get(b, PAYLOAD_CHECKSUM_AT)),
        is_compressed: flags & COMPRESSED != 0,
        seed: is_encrypted.then_some(seed),
    };
    Ok((head, stored))
}

/// Returns `N` bytes at an offset, which is a constant of the format and lies within the header.
fn get<const N: usize>(b: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&b[at..at + N]);
    field
}

fn put(b: &mut [u8; HEADER_LEN], at: usize, field: &[u8]) {
    b[at..at + field.len()].copy_from_slice(field);
}
