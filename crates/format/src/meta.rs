use crate::bytes::{are_zero, crc_with_hole, get_id, get_u16, get_u32, get_u64, put};
use crate::{FORMAT_VERSION, LogId};

/// Length of one metadata slot, in bytes.
pub const META_SLOT_LEN: usize = 4096;
/// Offsets of the two slots in the control file. Each has 64 KiB, so that no physical block of any known
/// device holds both, or one of them and a control slot.
pub const META_SLOT_OFFSETS: [u64; 2] = [128 << 10, 192 << 10];
/// Largest metadata of a log, in bytes.
pub const MAX_META_LEN: usize = 4000;

const MAGIC: &[u8; 6] = b"LFMETA";
const DATA_AT: usize = 96;
const _: () = assert!(DATA_AT + MAX_META_LEN == META_SLOT_LEN);

/// Metadata slot: some bytes of the log's owner that are replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// Log of the slot.
    pub log_id: LogId,
    /// Number of the change, from 1. The slot with the higher number is newer.
    pub sequence: u64,
    /// Bytes of the owner, at most [`MAX_META_LEN`].
    pub bytes: Vec<u8>,
}

/// Reason why a metadata slot is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MetaReject {
    /// The slot was never written: it is all zeroes, or lies behind the end of the file.
    #[error("never written")]
    Absent,
    /// The slot is too short, or does not begin with the magic bytes.
    #[error("no metadata slot")]
    Magic,
    /// The checksum is wrong.
    #[error("metadata slot checksum")]
    Checksum,
    /// The medium cannot return the slot.
    #[error("metadata slot that cannot be read")]
    Unreadable,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes, or bytes behind the length, are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// The length or the sequence is impossible.
    #[error("impossible length or sequence")]
    Length,
    /// The slot belongs to another log.
    #[error("metadata of another log")]
    ForeignLog,
}

crate::names::names!(MetaReject: Absent, Magic, Checksum, Unreadable, Version, Reserved, Length, ForeignLog);

impl Meta {
    /// Returns the slot's bytes. Bytes beyond [`MAX_META_LEN`] are cut off: callers check before.
    pub fn encode(&self) -> [u8; META_SLOT_LEN] {
        let mut b = [0; META_SLOT_LEN];
        let kept = &self.bytes[..self.bytes.len().min(MAX_META_LEN)];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &(kept.len() as u32).to_le_bytes());
        put(&mut b, 16, &self.log_id.0);
        put(&mut b, 32, &self.sequence.to_le_bytes());
        put(&mut b, DATA_AT, kept);
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Reads a slot of the log `log_id`. Empty `bytes` means that the slot lies behind the end of the file.
    pub fn decode(bytes: &[u8], log_id: LogId) -> Result<Meta, MetaReject> {
        let b = match bytes.get(..META_SLOT_LEN) {
            Some(b) => b,
            None if bytes.iter().all(|&x| x == 0) => return Err(MetaReject::Absent),
            None => return Err(MetaReject::Magic),
        };
        if b.iter().all(|&x| x == 0) {
            return Err(MetaReject::Absent);
        }
        if &b[..6] != MAGIC {
            return Err(MetaReject::Magic);
        }
        let checked = !crate::planted!("metadata-checksum-ignored");
        if checked && get_u32(b, 8) != crc_with_hole(b, 8) {
            return Err(MetaReject::Checksum);
        }
        let version = get_u16(b, 6);
        if version != FORMAT_VERSION {
            return Err(MetaReject::Version(version));
        }
        let len = get_u32(b, 12) as usize;
        let sequence = get_u64(b, 32);
        if len > MAX_META_LEN || sequence == 0 {
            return Err(MetaReject::Length);
        }
        if !(are_zero(&b[40..DATA_AT]) && are_zero(&b[DATA_AT + len..])) {
            return Err(MetaReject::Reserved);
        }
        if get_id(b, 16) != log_id {
            return Err(MetaReject::ForeignLog);
        }
        Ok(Meta {
            log_id,
            sequence,
            bytes: b[DATA_AT..DATA_AT + len].to_vec(),
        })
    }
}

/// Result of both metadata slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaSlots {
    /// No change of the metadata was ever acknowledged, and none can be read.
    Never,
    /// The metadata, the index of the slot that counts, and true if the other slot holds the same.
    Is(Meta, usize, bool),
    /// There was metadata, but neither slot is valid.
    Lost([MetaReject; 2]),
}

/// Returns the metadata slot that counts: the valid one with the higher sequence, and the first of two equal
/// ones. `had`: the control slot says that a change was acknowledged once.
pub fn newest_meta(slots: [Result<Meta, MetaReject>; 2], had: bool) -> MetaSlots {
    match slots {
        [Ok(a), Ok(b)] if a == b => MetaSlots::Is(a, 0, true),
        [Ok(a), Ok(b)] if a.sequence >= b.sequence => MetaSlots::Is(a, 0, false),
        [Ok(_), Ok(b)] => MetaSlots::Is(b, 1, false),
        [Ok(a), Err(_)] => MetaSlots::Is(a, 0, false),
        [Err(_), Ok(b)] => MetaSlots::Is(b, 1, false),
        // The second slot is written after the first one is durable. So if it was never written and nothing
        // was acknowledged, a broken first slot is the result of a crash in the very first change.
        [Err(_), Err(MetaReject::Absent)] if !had => MetaSlots::Never,
        // The second slot was never written if the first was not, whatever it would return.
        [Err(MetaReject::Absent), Err(MetaReject::Unreadable)] if !had => MetaSlots::Never,
        [Err(a), Err(b)] => MetaSlots::Lost([a, b]),
    }
}
