//! Forgeries: a field is changed and the checksums are corrected, so that the later checks are reached. A
//! bug or an attacker does this, but never a device.

use super::mutated::{ByteAddress, Mutated};
use super::sealing::{seal, seal_batch};
use arbitrary::Arbitrary;
use logforce_format::frame::Frames;
use logforce_format::{
    BATCH_HEADER_LEN, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Lsn, META_SLOT_LEN,
    META_SLOT_OFFSETS, SEGMENT_HEADER_LEN,
};

/// Offset and length of a field.
type Field = (usize, usize);

const BATCH: &[Field] = &[
    (6, 2),   // version
    (16, 8),  // log id
    (32, 8),  // LSN
    (40, 8),  // epoch
    (48, 8),  // its nonce
    (56, 8),  // stamp
    (64, 8),  // void from
    (72, 8),  // last void
    (80, 4),  // predecessor's checksum
    (84, 4),  // payload length
    (88, 1),  // kind
    (92, 4),  // frames
    (96, 8),  // predecessor's epoch
    (104, 8), // its nonce
    (112, 8), // reserved
];

const SEGMENT: &[Field] = &[
    (6, 2),  // version
    (12, 4), // write unit
    (16, 8), // log id
    (32, 8), // start
    (40, 8), // length
    (48, 8), // epoch
    (64, 8), // never written before, reserved
];

const CONTROL: &[Field] = &[
    (6, 2),   // version
    (12, 4),  // closed in order
    (16, 8),  // log id
    (32, 8),  // sequence
    (40, 8),  // front
    (48, 8),  // first segment
    (56, 8),  // end of the prepared segments
    (64, 4),  // checksum before the first segment
    (68, 4),  // checksum before the anchor
    (72, 8),  // anchor
    (80, 8),  // its epoch
    (88, 8),  // its nonce
    (96, 8),  // last void before it
    (104, 4), // has metadata
    (112, 8), // epoch
    (120, 8), // its nonce
    (128, 4), // epochs kept
    (136, 8), // write limit
    (256, 8), // the latest of them
    (272, 8), // the one before
];

const META: &[Field] = &[
    (6, 2),  // version
    (12, 4), // length
    (16, 8), // log id
    (32, 8), // sequence
    (40, 8), // reserved
];

/// A change with corrected checksums.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum Forgery<'a> {
    Batch {
        batch: u8,
        field: u8,
        value: Value,
        /// True if the batches after it link to it again.
        chain: bool,
    },
    Payload {
        batch: u8,
        at: u16,
        bytes: &'a [u8],
        chain: bool,
    },
    /// The header of a frame.
    Frame {
        batch: u8,
        frame: u8,
        len: Option<Value>,
        flags: u8,
        chain: bool,
    },
    Segment {
        segment: u8,
        field: u8,
        value: Value,
    },
    Control {
        slots: Slots,
        field: u8,
        value: Value,
    },
    Meta {
        slots: Slots,
        field: u8,
        value: Value,
    },
    /// The bytes at the batch's position get correct checksums.
    Seal { batch: u8 },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum Slots {
    First,
    Second,
    Both,
}

/// New value of a field.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum Value {
    Exact(u64),
    Plus(i8),
    /// The old value plus this many sectors of 512 bytes.
    PlusSectors(i8),
    Flip(u8),
    FromTop(u8),
    /// The start or the end of a batch.
    Start(u8),
    End(u8),
}

impl Value {
    fn of(self, old: u64, m: &Mutated<'_>) -> u64 {
        let batches = &m.base.batches;
        let batch = |n: u8| batches.get(usize::from(n) % batches.len().max(1));
        match self {
            Value::Exact(value) => value,
            Value::Plus(n) => old.wrapping_add_signed(n.into()),
            Value::PlusSectors(n) => old.wrapping_add_signed(i64::from(n) * 512),
            Value::Flip(bit) => old ^ 1 << (bit % 64),
            Value::FromTop(n) => u64::MAX - u64::from(n),
            Value::Start(n) => batch(n).map_or(0, |b| b.lsn.0),
            Value::End(n) => batch(n).map_or(0, |b| b.end.0),
        }
    }
}

fn patch(m: &mut Mutated<'_>, name: &str, at: usize, fields: &[Field], field: u8, value: Value) {
    let (offset, len) = fields[usize::from(field) % fields.len()];
    let mut old = [0; 8];
    match m.bytes(name, at + offset).get(..len) {
        Some(bytes) => old[..len].copy_from_slice(bytes),
        None => return,
    }
    let new = value.of(u64::from_le_bytes(old), m).to_le_bytes();
    m.bytes(name, at + offset)[..len].copy_from_slice(&new[..len]);
}

/// Corrects the checksums of a batch and, with `chain`, of the batches that link to it.
fn seal_from(m: &mut Mutated<'_>, batch: u8, chain: bool) {
    let base = m.base;
    let count = base.batches.len().max(1);
    let mut link = None;
    for b in base.batches.iter().skip(usize::from(batch) % count) {
        let bytes = m.bytes(&b.file, b.offset as usize);
        if bytes.len() < BATCH_HEADER_LEN {
            return;
        }
        if let Some(crc) = link {
            let crc: u32 = crc;
            bytes[80..84].copy_from_slice(&crc.to_le_bytes());
        }
        link = Some(seal_batch(bytes));
        if !chain {
            return;
        }
    }
}

impl Forgery<'_> {
    pub(super) fn apply(&self, m: &mut Mutated<'_>) -> Option<()> {
        let header = |batch| ByteAddress::Header { batch, at: 0 };
        match *self {
            Forgery::Batch {
                batch,
                field,
                value,
                chain,
            } => {
                let (name, at) = m.place(header(batch))?;
                patch(m, &name, at, BATCH, field, value);
                seal_from(m, batch, chain);
            }
            Forgery::Payload {
                batch,
                at,
                bytes,
                chain,
            } => {
                let (name, at) = m.place(ByteAddress::Payload { batch, at })?;
                for (to, from) in m.bytes(&name, at).iter_mut().zip(bytes) {
                    *to = *from;
                }
                seal_from(m, batch, chain);
            }
            Forgery::Frame {
                batch,
                frame,
                len,
                flags,
                chain,
            } => {
                let (name, at) = m.place(ByteAddress::Payload { batch, at: 0 })?;
                let payload = &*m.bytes(&name, at);
                let starts: Vec<u64> = Frames::new(payload, Lsn::ORIGIN)
                    .map_while(|f| f.ok())
                    .map(|f| f.lsn.0)
                    .collect();
                let start = starts.get(usize::from(frame) % starts.len().max(1))?;
                let at = at + *start as usize;
                if let Some(value) = len {
                    patch(m, &name, at, &[(0, 4)], 0, value);
                }
                *m.bytes(&name, at + 4).first_mut()? ^= flags;
                seal_from(m, batch, chain);
            }
            Forgery::Segment {
                segment,
                field,
                value,
            } => {
                let (name, _) = m.place(ByteAddress::Segment { segment, at: 0 })?;
                patch(m, &name, 0, SEGMENT, field, value);
                seal(m.bytes(&name, 0).get_mut(..SEGMENT_HEADER_LEN)?);
            }
            Forgery::Control {
                slots,
                field,
                value,
            } => each(m, slots, CONTROL_SLOT_OFFSETS, CONTROL_SLOT_LEN, |m, at| {
                patch(m, "control", at, CONTROL, field, value);
            }),
            Forgery::Meta {
                slots,
                field,
                value,
            } => each(m, slots, META_SLOT_OFFSETS, META_SLOT_LEN, |m, at| {
                patch(m, "control", at, META, field, value);
            }),
            Forgery::Seal { batch } => seal_from(m, batch, false),
        }
        Some(())
    }
}

/// Changes and seals one slot or both.
fn each(
    m: &mut Mutated<'_>,
    slots: Slots,
    offsets: [u64; 2],
    len: usize,
    change: impl Fn(&mut Mutated<'_>, usize),
) {
    let offsets = match slots {
        Slots::First => &offsets[..1],
        Slots::Second => &offsets[1..],
        Slots::Both => &offsets[..],
    };
    for at in offsets {
        let at = *at as usize;
        change(m, at);
        if let Some(slot) = m.bytes("control", at).get_mut(..len) {
            seal(slot);
        }
    }
}
