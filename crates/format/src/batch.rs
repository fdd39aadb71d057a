use crate::bytes::{crc_with_hole, get_epoch, get_id, get_u16, get_u32, get_u64, put, put_epoch};
use crate::{Epoch, FORMAT_VERSION, LogId, Lsn, align_up, planted};

/// Length of a batch header, in bytes.
pub const BATCH_HEADER_LEN: usize = 128;

/// Largest length of a batch in bytes, including header and padding. It bounds the buffer of a reader.
pub const MAX_BATCH_LEN: u32 = 16 << 20;

const MAGIC: &[u8; 6] = b"LFBTCH";

// A header never straddles a write unit: it lies at the start of a unit and is smaller than the smallest one.
// So a torn unit cannot leave a header with halves of two writes.
const _: () = assert!(BATCH_HEADER_LEN <= crate::MIN_WRITE_UNIT as usize);

/// Purpose of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Carries records.
    Data,
    /// Carries only its stamp: tells what is durable, after a force or while the log is idle.
    Stamp,
    /// First batch of an epoch.
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

/// Header of a batch; `docs/format.md` describes its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Log of the batch.
    pub log_id: LogId,
    /// Position of the header.
    pub lsn: Lsn,
    /// Opening that wrote the batch.
    pub epoch: Epoch,
    /// Purpose of the batch.
    pub kind: BatchKind,
    /// Position below which everything was durable against loss of power when this batch was sealed.
    pub stamp: Lsn,
    /// Start of the void range: `[void_from, lsn)` is not part of the log. Equal to `lsn` if nothing is
    /// voided.
    pub void_from: Lsn,
    /// Latest earlier batch that voids something; [`Lsn::ORIGIN`] for none.
    pub last_void: Lsn,
    /// Header checksum of the previous batch, which chains the batches.
    pub prev_crc: u32,
    /// Length of the payload behind the header, in bytes. The rest up to the write unit is padding.
    pub payload_len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// Number of frames in the payload.
    pub frames: u32,
    /// Epoch of the predecessor in an epoch batch, else zero.
    pub prev_epoch: Epoch,
    /// Checksum of this header, which the next batch repeats.
    pub crc: u32,
}

/// Reason why bytes are not the expected batch. The variants are in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// All bytes of the header are zero.
    #[error("zeroes")]
    Zero,
    /// The header does not begin with the magic bytes.
    #[error("no batch header")]
    Magic,
    /// The header's own checksum is wrong.
    #[error("header checksum")]
    HeaderChecksum,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// The kind is unknown to this version.
    #[error("kind {0}")]
    Kind(u8),
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// The length is impossible.
    #[error("length {0}")]
    Length(u32),
    /// The stamp lies above the batch.
    #[error("stamp above the batch")]
    StampAhead,
    /// The start of the void range does not fit the batch's kind, or lies above the batch. Or the batch names
    /// itself or a later batch as the latest earlier one that voids something.
    #[error("void range")]
    VoidRange,
    /// The predecessor's epoch does not fit: an epoch batch does not follow a lower epoch, another kind names
    /// a predecessor, or the batch has no epoch.
    #[error("predecessor epoch")]
    PrevEpoch,
    /// The batch belongs to another log.
    #[error("another log's batch")]
    ForeignLog,
    /// The batch belongs at another position: it is from earlier use of a recycled segment.
    #[error("batch of LSN {0}")]
    WrongLsn(Lsn),
    /// The batch was written by an earlier opening than its predecessor.
    #[error("earlier epoch {0}")]
    EpochLower(u64),
    /// The batch was written by an opening that does not follow from its predecessor's.
    #[error("unlinked epoch {0}")]
    EpochUnlinked(u64),
    /// The batch reaches past the end of its segment.
    #[error("past the segment's end")]
    PastSegment,
    /// The batch does not name its predecessor's checksum.
    #[error("chain")]
    Chain,
    /// The payload is incomplete, or its checksum is wrong.
    #[error("payload checksum")]
    PayloadChecksum,
    /// The checksums are right, but the frames make no sense: the batch was written wrong.
    #[error("frames")]
    Frames,
}

crate::names::names!(Reject: Zero, Magic, HeaderChecksum, Version, Kind, Reserved, Length, StampAhead,
    VoidRange, PrevEpoch, ForeignLog, WrongLsn, EpochLower, EpochUnlinked, PastSegment, Chain,
    PayloadChecksum, Frames);

/// Properties that the next batch of a log must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Log of the batch.
    pub log_id: LogId,
    /// Position of the batch.
    pub lsn: Lsn,
    /// Exclusive end of its segment.
    pub segment_end: Lsn,
    /// Write unit of the segment, in bytes.
    pub write_unit: u32,
    /// Epoch of the predecessor.
    pub epoch: Epoch,
    /// Header checksum of the predecessor.
    pub prev_crc: u32,
}

impl BatchHeader {
    /// Returns the length of the batch in the stream, in bytes: header, payload, and padding to the write
    /// unit.
    pub fn extent(&self, write_unit: u32) -> u64 {
        align_up(
            BATCH_HEADER_LEN as u64 + u64::from(self.payload_len),
            u64::from(write_unit),
        )
    }

    /// Returns the position of the next batch.
    pub fn end(&self, write_unit: u32) -> Lsn {
        self.lsn.plus(self.extent(write_unit))
    }

    /// Returns true if the batch removes a range from the log.
    pub fn voids(&self) -> bool {
        self.void_from < self.lsn
    }

    /// Returns the header's bytes, including the checksum. Ignores `self.crc`.
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

    /// Reads a header. Checks the checksum before it uses any other field.
    ///
    /// Checks that these bytes are *a* batch header. [`BatchHeader::check_link`] checks that it is the
    /// expected one.
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
            // As a reader that fetches the payload along with the header would do.
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
        // The list of voids falls strictly, so a walk along it ends, whatever the bytes hold. No batch lies
        // at the origin, where the first segment's header is.
        let falls = h.last_void < h.lsn || planted!("void-list-endless");
        if !void_fits || !falls {
            return Err(Reject::VoidRange);
        }
        let prev_fits = match h.kind {
            BatchKind::Epoch => h.prev_epoch.counter < h.epoch.counter,
            // Epoch 0 means "before any". Without this check a batch of it would link to the state in which a
            // new log begins.
            _ => h.prev_epoch == Epoch::default() && h.epoch.counter > 0,
        };
        if !prev_fits {
            return Err(Reject::PrevEpoch);
        }
        Ok(h)
    }

    /// Checks that this is the batch that must come next.
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

    /// Checks that `payload` (of exactly `payload_len` bytes) is the one that was sealed.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), Reject> {
        let whole = payload.len() == self.payload_len as usize;
        let right = || crc32c::crc32c(payload) == self.payload_crc;
        if !whole || !(right() || planted!("payload-checksum-ignored")) {
            return Err(Reject::PayloadChecksum);
        }
        Ok(())
    }
}

/// Completes a batch in place. `batch` consists of space for the header, payload, and padding to the write
/// unit.
///
/// Writes the header, whose `payload_crc` must be that of the payload behind the header ([`payload_crc`]),
/// and zeroes the padding. Returns the header's checksum, which the next batch must name.
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

/// Returns the checksum of a payload to which `more` is appended; `so_far` is 0 for an empty one. Computed
/// piece by piece while the bytes are in the processor's cache, it costs a fraction of a computation at the
/// end.
pub fn payload_crc(so_far: u32, more: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, more)
}
