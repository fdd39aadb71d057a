use crate::bytes::{are_zero, crc_with_hole, get_id, get_u16, get_u32, get_u64, put};
use crate::{FORMAT_VERSION, LogId};

/// Length of one metadata slot, bytes.
pub const META_SLOT_LEN: usize = 4096;
/// Where the two slots lie in the control file: each in 64 KiB of its own, so that no physical
/// block of any device we know holds both, or one of them and a control slot.
pub const META_SLOT_OFFSETS: [u64; 2] = [128 << 10, 192 << 10];
/// The most bytes of metadata that a log keeps.
pub const MAX_META_LEN: usize = 4000;

const MAGIC: &[u8; 6] = b"LFMETA";
const DATA_AT: usize = 96;
const _: () = assert!(DATA_AT + MAX_META_LEN == META_SLOT_LEN);

/// A metadata slot: some bytes of the log's owner that are replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// The log.
    pub log_id: LogId,
    /// Counts the changes, from 1; the slot with the higher one is newer.
    pub sequence: u64,
    /// The owner's bytes, at most [`MAX_META_LEN`].
    pub bytes: Vec<u8>,
}

/// Why a metadata slot is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MetaReject {
    /// Nothing but zeroes, or behind the end of the file: never written.
    #[error("never written")]
    Absent,
    /// Too short, or does not begin as one does.
    #[error("no metadata slot")]
    Magic,
    /// The checksum is wrong.
    #[error("metadata slot checksum")]
    Checksum,
    /// The medium does not give it back.
    #[error("metadata slot that cannot be read")]
    Unreadable,
    /// Written by a version that this one does not know.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes are in use, or those behind the length.
    #[error("reserved bytes in use")]
    Reserved,
    /// A length or a sequence that cannot be.
    #[error("impossible length or sequence")]
    Length,
    /// Another log's.
    #[error("metadata of another log")]
    ForeignLog,
}

crate::names::names!(MetaReject: Absent, Magic, Checksum, Unreadable, Version, Reserved, Length, ForeignLog);

impl Meta {
    /// A slot's bytes. What is longer than [`MAX_META_LEN`] is cut off: callers check before.
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

    /// Reads a slot of the log `log_id`; no bytes at all are those behind the end of a file.
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

/// What two metadata slots say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaSlots {
    /// No change of the metadata was ever acknowledged, and none can be read.
    Never,
    /// The metadata, the index of the slot that counts, and whether the other one holds the same.
    Is(Meta, usize, bool),
    /// There was metadata, and neither slot can be believed.
    Lost([MetaReject; 2]),
}

/// Which of two metadata slots counts: the valid one with the higher sequence; the first of two
/// equal ones. `had` is what the control slot says: a change was acknowledged once.
pub fn newest_meta(slots: [Result<Meta, MetaReject>; 2], had: bool) -> MetaSlots {
    match slots {
        [Ok(a), Ok(b)] if a == b => MetaSlots::Is(a, 0, true),
        [Ok(a), Ok(b)] if a.sequence >= b.sequence => MetaSlots::Is(a, 0, false),
        [Ok(_), Ok(b)] => MetaSlots::Is(b, 1, false),
        [Ok(a), Err(_)] => MetaSlots::Is(a, 0, false),
        [Err(_), Ok(b)] => MetaSlots::Is(b, 1, false),
        // The second slot is written when the first one is durable. So where it was never written,
        // and nothing was acknowledged, a broken first one is what a crash in the very first change
        // leaves.
        [Err(_), Err(MetaReject::Absent)] if !had => MetaSlots::Never,
        // Nor was the second one ever written where the first one was not, whatever it would show.
        [Err(MetaReject::Absent), Err(MetaReject::Unreadable)] if !had => MetaSlots::Never,
        [Err(a), Err(b)] => MetaSlots::Lost([a, b]),
    }
}
