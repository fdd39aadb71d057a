use crate::bytes::{crc_with_hole, get_epoch, get_id, get_u16, get_u32, get_u64, put, put_epoch};
use crate::{Epoch, FORMAT_VERSION, LogId, Lsn, align_up, planted};

/// Length of a batch header, in bytes.
pub const BATCH_HEADER_LEN: usize = 128;

/// The longest batch, header and padding included: bounds what a reader must buffer.
pub const MAX_BATCH_LEN: u32 = 16 << 20;

const MAGIC: &[u8; 6] = b"LFBTCH";

// A header never straddles a write unit: it lies at a unit's start and is smaller than the
// smallest, so that one torn unit cannot leave half of a header that belongs to two writes.
const _: () = assert!(BATCH_HEADER_LEN <= crate::MIN_WRITE_UNIT as usize);

/// What a batch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Carries records.
    Data,
    /// Carries only its stamp: says what is durable after a force or when the log is idle.
    Stamp,
    /// The first batch of an epoch.
    Epoch,
    /// Voids a range that was readable before (`truncate_back`).
    Void,
}

impl BatchKind {
    fn code(self) -> u8 {
        match self {
            BatchKind::Data => 1,
            BatchKind::Stamp => 2,
            BatchKind::Epoch => 3,
            BatchKind::Void => 4,
        }
    }
}

/// The header of a batch; `docs/format.md` has its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The log it belongs to.
    pub log_id: LogId,
    /// Where its header lies.
    pub lsn: Lsn,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// What it is for.
    pub kind: BatchKind,
    /// Everything below was durable against loss of power when this batch was sealed.
    pub stamp: Lsn,
    /// `[void_from, lsn)` is not part of the log; equal to `lsn` where nothing is voided.
    pub void_from: Lsn,
    /// The latest earlier batch that voids something; [`Lsn::ORIGIN`] for none.
    pub last_void: Lsn,
    /// Header checksum of the batch before this one: the chain.
    pub prev_crc: u32,
    /// Bytes of payload behind the header; what follows up to the write unit is padding.
    pub payload_len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// Frames in the payload.
    pub frames: u32,
    /// In an epoch batch the epoch of its predecessor, else zero.
    pub prev_epoch: Epoch,
    /// This header's own checksum, which the next batch repeats.
    pub crc: u32,
}

/// Why bytes are not the batch that was looked for, in the order in which it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// All bytes of the header are zero.
    #[error("zeroes")]
    Zero,
    /// The header does not begin as one does.
    #[error("no batch header")]
    Magic,
    /// The header's own checksum is wrong.
    #[error("header checksum")]
    HeaderChecksum,
    /// Written by a version that this one does not know.
    #[error("format version {0}")]
    Version(u16),
    /// A kind that this version does not know.
    #[error("kind {0}")]
    Kind(u8),
    /// Reserved bytes are in use.
    #[error("reserved bytes in use")]
    Reserved,
    /// The length cannot be.
    #[error("length {0}")]
    Length(u32),
    /// The stamp lies above the batch.
    #[error("stamp above the batch")]
    StampAhead,
    /// The void range does not fit the kind, or lies above the batch.
    #[error("void range")]
    VoidRange,
    /// An epoch batch that does not follow a lower epoch, another kind that names a predecessor, or a
    /// batch of no epoch.
    #[error("predecessor epoch")]
    PrevEpoch,
    /// A batch of another log.
    #[error("another log's batch")]
    ForeignLog,
    /// Belongs at another position: a recycled segment's earlier life.
    #[error("batch of LSN {0}")]
    WrongLsn(Lsn),
    /// Written by an earlier opening than its predecessor.
    #[error("earlier epoch {0}")]
    EpochLower(u64),
    /// Written by an opening that does not follow from its predecessor's.
    #[error("unlinked epoch {0}")]
    EpochUnlinked(u64),
    /// Reaches past its segment's end.
    #[error("past the segment's end")]
    PastSegment,
    /// Does not name its predecessor's checksum.
    #[error("chain")]
    Chain,
    /// The payload is not all there, or its checksum is wrong.
    #[error("payload checksum")]
    PayloadChecksum,
    /// Checksums are right, but the frames inside make no sense: written wrong.
    #[error("frames")]
    Frames,
}

crate::names::names!(Reject: Zero, Magic, HeaderChecksum, Version, Kind, Reserved, Length, StampAhead,
    VoidRange, PrevEpoch, ForeignLog, WrongLsn, EpochLower, EpochUnlinked, PastSegment, Chain,
    PayloadChecksum, Frames);

/// What the next batch of a log must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The log.
    pub log_id: LogId,
    /// The position.
    pub lsn: Lsn,
    /// Exclusive end of the segment it lies in.
    pub segment_end: Lsn,
    /// The segment's write unit, bytes.
    pub write_unit: u32,
    /// The predecessor's epoch.
    pub epoch: Epoch,
    /// The predecessor's header checksum.
    pub prev_crc: u32,
}

impl BatchHeader {
    /// Bytes that the batch takes in the stream: header, payload, padding to the write unit.
    pub fn extent(&self, write_unit: u32) -> u64 {
        align_up(
            BATCH_HEADER_LEN as u64 + u64::from(self.payload_len),
            u64::from(write_unit),
        )
    }

    /// Where the next batch begins.
    pub fn end(&self, write_unit: u32) -> Lsn {
        self.lsn.plus(self.extent(write_unit))
    }

    /// Whether it takes a range out of the log.
    pub fn voids(&self) -> bool {
        self.void_from < self.lsn
    }

    /// The header's bytes, checksum included; `self.crc` is not looked at.
    pub fn encode(&self) -> [u8; BATCH_HEADER_LEN] {
        let mut b = [0; BATCH_HEADER_LEN];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &self.payload_crc.to_le_bytes());
        put(&mut b, 16, &self.log_id.0);
        put(&mut b, 32, &self.lsn.0.to_le_bytes());
        put_epoch(&mut b, 40, self.epoch);
        put(&mut b, 56, &self.stamp.0.to_le_bytes());
        put(&mut b, 64, &self.void_from.0.to_le_bytes());
        put(&mut b, 72, &self.last_void.0.to_le_bytes());
        put(&mut b, 80, &self.prev_crc.to_le_bytes());
        put(&mut b, 84, &self.payload_len.to_le_bytes());
        b[88] = self.kind.code();
        put(&mut b, 92, &self.frames.to_le_bytes());
        put_epoch(&mut b, 96, self.prev_epoch);
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Reads a header. Its checksum is looked at before any field is believed.
    ///
    /// Answers whether these bytes are *a* batch header, not whether it is the expected one: that
    /// is [`BatchHeader::check_link`].
    pub fn decode(bytes: &[u8]) -> Result<BatchHeader, Reject> {
        let Some(b) = bytes.get(..BATCH_HEADER_LEN) else {
            return Err(Reject::Magic);
        };
        if &b[..6] != MAGIC {
            return Err(if b.iter().all(|&x| x == 0) {
                Reject::Zero
            } else {
                Reject::Magic
            });
        }
        let crc = get_u32(b, 8);
        if planted!("length-before-checksum") {
            // As a reader would that fetches the payload along with the header.
            std::hint::black_box(vec![0_u8; get_u32(b, 84) as usize]);
        }
        if crc != crc_with_hole(b, 8) && !planted!("header-checksum-ignored") {
            return Err(Reject::HeaderChecksum);
        }
        let version = get_u16(b, 6);
        if version != FORMAT_VERSION {
            return Err(Reject::Version(version));
        }
        let kind = match b[88] {
            1 => BatchKind::Data,
            2 => BatchKind::Stamp,
            3 => BatchKind::Epoch,
            4 => BatchKind::Void,
            other => return Err(Reject::Kind(other)),
        };
        if b[89..92] != [0; 3] || b[112..128] != [0; 16] {
            return Err(Reject::Reserved);
        }
        let h = BatchHeader {
            log_id: get_id(b, 16),
            lsn: Lsn(get_u64(b, 32)),
            epoch: get_epoch(b, 40),
            kind,
            stamp: Lsn(get_u64(b, 56)),
            void_from: Lsn(get_u64(b, 64)),
            last_void: Lsn(get_u64(b, 72)),
            prev_crc: get_u32(b, 80),
            payload_len: get_u32(b, 84),
            payload_crc: get_u32(b, 12),
            frames: get_u32(b, 92),
            prev_epoch: get_epoch(b, 96),
            crc,
        };
        let empty = h.payload_len == 0 && h.frames == 0;
        if h.payload_len > MAX_BATCH_LEN - BATCH_HEADER_LEN as u32
            || (h.kind == BatchKind::Data) == empty
            || (h.payload_len == 0) != (h.frames == 0)
        {
            return Err(Reject::Length(h.payload_len));
        }
        if h.stamp > h.lsn {
            return Err(Reject::StampAhead);
        }
        let void_fits = match h.kind {
            BatchKind::Data | BatchKind::Stamp => h.void_from == h.lsn,
            BatchKind::Epoch => h.void_from <= h.lsn,
            BatchKind::Void => h.void_from < h.lsn,
        };
        // A strictly falling chain of voids: a walk along it ends, whatever the bytes hold. No batch
        // lies at the origin, where the first segment's header is.
        let falls = h.last_void < h.lsn || planted!("void-list-endless");
        if !void_fits || !falls {
            return Err(Reject::VoidRange);
        }
        let prev_fits = match h.kind {
            BatchKind::Epoch => h.prev_epoch.counter < h.epoch.counter,
            // Epoch 0 is "before any": without this, a batch of it would link to the state in
            // which a new log begins.
            _ => h.prev_epoch == Epoch::default() && h.epoch.counter > 0,
        };
        if !prev_fits {
            return Err(Reject::PrevEpoch);
        }
        Ok(h)
    }

    /// Whether this is the batch that must come next.
    pub fn check_link(&self, e: &Expected) -> Result<(), Reject> {
        if self.log_id != e.log_id {
            return Err(Reject::ForeignLog);
        }
        if self.lsn != e.lsn {
            return Err(Reject::WrongLsn(self.lsn));
        }
        if planted!("stale-epoch-accepted") {
            return Ok(());
        }
        if self.epoch.counter < e.epoch.counter {
            return Err(Reject::EpochLower(self.epoch.counter));
        }
        let linked = match self.kind {
            BatchKind::Epoch => self.prev_epoch == e.epoch,
            _ => self.epoch == e.epoch,
        };
        if !linked {
            return Err(Reject::EpochUnlinked(self.epoch.counter));
        }
        if self.end(e.write_unit) > e.segment_end {
            return Err(Reject::PastSegment);
        }
        if self.prev_crc != e.prev_crc && !planted!("chain-unchecked") {
            return Err(Reject::Chain);
        }
        Ok(())
    }

    /// Whether `payload` (of exactly `payload_len` bytes) is what was sealed.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), Reject> {
        let whole = payload.len() == self.payload_len as usize;
        let right = || crc32c::crc32c(payload) == self.payload_crc;
        if !whole || !(right() || planted!("payload-checksum-ignored")) {
            return Err(Reject::PayloadChecksum);
        }
        Ok(())
    }
}

/// Completes a batch in place: `batch` is header space, payload and padding to the write unit.
///
/// Writes the header, whose `payload_crc` must be that of the payload that lies behind the header
/// space ([`payload_crc`]), zeroes the padding, and returns the header's checksum, which the next
/// batch must name.
///
/// # Panics
/// If `batch` is shorter than header and payload.
pub fn seal(batch: &mut [u8], header: &mut BatchHeader) -> u32 {
    let payload_end = BATCH_HEADER_LEN + header.payload_len as usize;
    batch[payload_end..].fill(0);
    let bytes = header.encode();
    batch[..BATCH_HEADER_LEN].copy_from_slice(&bytes);
    header.crc = get_u32(&bytes, 8);
    header.crc
}

/// The checksum of a payload to which `more` is appended; `so_far` is 0 for an empty one. Taken
/// piece by piece while the bytes are in the processor's cache, it costs a fraction of what it
/// costs at the end.
pub fn payload_crc(so_far: u32, more: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, more)
}
