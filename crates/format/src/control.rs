use crate::bytes::{
    are_zero, crc_with_hole, get_epoch, get_id, get_u16, get_u32, get_u64, put, put_epoch,
};
use crate::{Epoch, FORMAT_VERSION, LogId, Lsn, planted};

/// Length of one slot, in bytes.
pub const CONTROL_SLOT_LEN: usize = 4096;
/// Offsets of the two slots: 64 KiB apart, so that no physical block of any known device holds both. A torn
/// write of one leaves the other intact.
pub const CONTROL_SLOT_OFFSETS: [u64; 2] = [0, 64 << 10];
/// Length of the control file in bytes: two control slots and two metadata slots, 64 KiB for each.
pub const CONTROL_FILE_LEN: u64 = 256 << 10;
/// Number of past epochs that a slot remembers.
pub const EPOCH_HISTORY: usize = 128;

const MAGIC: &[u8; 6] = b"LFCTRL";
const HISTORY_AT: usize = 256;
const _: () = assert!(HISTORY_AT + 16 * EPOCH_HISTORY <= CONTROL_SLOT_LEN);

/// Position from which a scan may start. It is a batch boundary below which everything is durable, and at
/// which no append has begun without having ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anchor {
    /// Position of the boundary.
    pub lsn: Lsn,
    /// Header checksum of the batch that ends there.
    pub prev_crc: u32,
    /// Epoch of that batch.
    pub epoch: Epoch,
    /// Latest batch below that voids something; [`Lsn::ORIGIN`] for none.
    pub last_void: Lsn,
}

/// Contents of the control file: the state that must exist, whatever the directory shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Log of the file.
    pub log_id: LogId,
    /// Number of writes of this file. The slot with the higher number is newer.
    pub sequence: u64,
    /// First position of the records that were not removed by `truncate_front`.
    pub front: Lsn,
    /// Start of the first segment that must exist.
    pub first_segment: Lsn,
    /// Exclusive end of the last segment that must exist; equal to `first_segment` before the first was
    /// prepared.
    pub prepared_end: Lsn,
    /// Position above which no batch of any opening so far ends. A search for written data may stop there.
    /// [`Lsn::ORIGIN`] if unknown.
    pub write_limit: Lsn,
    /// Header checksum of the batch before the first segment's first one.
    pub first_prev_crc: u32,
    /// True if a close wrote the slot: nothing lies above the anchor.
    pub clean: bool,
    /// True if a change of the metadata was acknowledged: one of its slots must be valid.
    pub has_meta: bool,
    /// Position at which the scan of an opening starts.
    pub anchor: Anchor,
    /// Latest opening for writing.
    pub epoch: Epoch,
    /// Earlier openings, latest first.
    pub history: Vec<Epoch>,
}

/// Reason why a slot is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ControlReject {
    /// The slot is too short, or does not begin with the magic bytes.
    #[error("no control slot")]
    Magic,
    /// The checksum is wrong.
    #[error("the checksum of the slot is wrong")]
    Checksum,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// Positions or epochs contradict each other.
    #[error("contradictory positions or epochs")]
    Contradiction,
}

crate::names::names!(ControlReject: Magic, Checksum, Version, Reserved, Contradiction);

impl Control {
    /// Returns true if this log is known to have had `epoch`.
    pub fn knows(&self, epoch: Epoch) -> bool {
        epoch == self.epoch || self.history.contains(&epoch)
    }

    /// Returns the bytes of the slot. The oldest epochs beyond [`EPOCH_HISTORY`] are dropped.
    pub fn encode(&self) -> [u8; CONTROL_SLOT_LEN] {
        let mut b = [0; CONTROL_SLOT_LEN];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &u32::from(self.clean).to_le_bytes());
        put(&mut b, 16, &self.log_id.0);
        put(&mut b, 32, &self.sequence.to_le_bytes());
        put(&mut b, 40, &self.front.0.to_le_bytes());
        put(&mut b, 48, &self.first_segment.0.to_le_bytes());
        put(&mut b, 56, &self.prepared_end.0.to_le_bytes());
        put(&mut b, 64, &self.first_prev_crc.to_le_bytes());
        put(&mut b, 68, &self.anchor.prev_crc.to_le_bytes());
        put(&mut b, 72, &self.anchor.lsn.0.to_le_bytes());
        put_epoch(&mut b, 80, self.anchor.epoch);
        put(&mut b, 96, &self.anchor.last_void.0.to_le_bytes());
        put(&mut b, 104, &u32::from(self.has_meta).to_le_bytes());
        put_epoch(&mut b, 112, self.epoch);
        let kept = self.history.len().min(EPOCH_HISTORY);
        put(&mut b, 128, &(kept as u32).to_le_bytes());
        put(&mut b, 136, &self.write_limit.0.to_le_bytes());
        for (i, e) in self.history[..kept].iter().enumerate() {
            put_epoch(&mut b, HISTORY_AT + 16 * i, *e);
        }
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Reads a slot.
    pub fn decode(bytes: &[u8]) -> Result<Control, ControlReject> {
        let Some(b) = bytes.get(..CONTROL_SLOT_LEN) else {
            return Err(ControlReject::Magic);
        };
        if &b[..6] != MAGIC {
            return Err(ControlReject::Magic);
        }
        let right = get_u32(b, 8) == crc_with_hole(b, 8);
        if !(right || planted!("control-checksum-ignored")) {
            return Err(ControlReject::Checksum);
        }
        let version = get_u16(b, 6);
        if version != FORMAT_VERSION {
            return Err(ControlReject::Version(version));
        }
        let flags = get_u32(b, 12);
        let has_meta = get_u32(b, 104);
        let kept = get_u32(b, 128) as usize;
        if flags > 1
            || has_meta > 1
            || kept > EPOCH_HISTORY
            || b[108..112] != [0; 4]
            || b[132..136] != [0; 4]
            || !are_zero(&b[144..HISTORY_AT])
            || !are_zero(&b[HISTORY_AT + 16 * kept..])
        {
            return Err(ControlReject::Reserved);
        }
        let c = Control {
            log_id: get_id(b, 16),
            sequence: get_u64(b, 32),
            front: Lsn(get_u64(b, 40)),
            first_segment: Lsn(get_u64(b, 48)),
            prepared_end: Lsn(get_u64(b, 56)),
            write_limit: Lsn(get_u64(b, 136)),
            first_prev_crc: get_u32(b, 64),
            clean: flags == 1,
            has_meta: has_meta == 1,
            anchor: Anchor {
                lsn: Lsn(get_u64(b, 72)),
                prev_crc: get_u32(b, 68),
                epoch: get_epoch(b, 80),
                last_void: Lsn(get_u64(b, 96)),
            },
            epoch: get_epoch(b, 112),
            history: (0..kept)
                .map(|i| get_epoch(b, HISTORY_AT + 16 * i))
                .collect(),
        };
        let falling = std::iter::once(&c.epoch)
            .chain(&c.history)
            .is_sorted_by(|a, b| a.counter > b.counter);
        let ordered = falling
            && c.first_segment <= c.prepared_end
            && c.front >= c.first_segment
            && c.front <= c.anchor.lsn
            && c.anchor.lsn >= c.first_segment
            && c.anchor.lsn <= c.prepared_end
            && (c.write_limit == Lsn::ORIGIN
                || c.anchor.lsn <= c.write_limit && c.write_limit <= c.prepared_end)
            && c.anchor.last_void <= c.anchor.lsn
            && c.anchor.epoch.counter <= c.epoch.counter;
        if !ordered {
            return Err(ControlReject::Contradiction);
        }
        Ok(c)
    }
}

/// Returns the slot that counts, with its index: the valid one with the higher sequence.
pub fn newest(
    slots: [Result<Control, ControlReject>; 2],
) -> Result<(usize, Control), [ControlReject; 2]> {
    match slots {
        [Ok(a), Ok(b)] => Ok(if a.sequence >= b.sequence {
            (0, a)
        } else {
            (1, b)
        }),
        [Ok(a), Err(_)] => Ok((0, a)),
        [Err(_), Ok(b)] => Ok((1, b)),
        [Err(a), Err(b)] => Err([a, b]),
    }
}
