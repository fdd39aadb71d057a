//! Frames: records, or fragments of them, inside a batch's payload.
//!
//! A frame consists of a header of 8 bytes, its data, and zeroes up to a multiple of 8. A record is one
//! frame, or several if it spans batches. Records that were appended atomically are *joined*: each but the
//! last is marked as followed by another.

use crate::bytes::{get_u32, put};
use crate::{Lsn, MAX_RECORD_LEN, planted};

/// Length of a frame header, in bytes.
pub const FRAME_HEADER_LEN: usize = 8;
/// Alignment of frames within the stream, in bytes.
pub const FRAME_ALIGN: usize = 8;

const FIRST: u8 = 1;
const LAST: u8 = 2;
const JOINED: u8 = 4;
const FOLLOWS: u8 = 8;

/// Contents of a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the data in this frame, in bytes.
    pub len: u32,
    /// True if a record begins here.
    pub first: bool,
    /// True if the record ends here.
    pub last: bool,
    /// True if another record of the same atomic append follows.
    pub joined: bool,
    /// True if the record follows another one of the same atomic append.
    pub follows: bool,
}

/// Frame of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Position of the header.
    pub lsn: Lsn,
    /// Contents of the header.
    pub header: FrameHeader,
    /// Data of the frame.
    pub data: &'a [u8],
}

impl Frame<'_> {
    /// Returns the position of the next frame of the same batch.
    pub fn end(&self) -> Lsn {
        self.lsn.plus(frame_len(self.data.len()) as u64)
    }
}

/// Returns the length of a frame with `len` bytes of data, in bytes.
pub fn frame_len(len: usize) -> usize {
    len.saturating_add(FRAME_HEADER_LEN + FRAME_ALIGN - 1) & !(FRAME_ALIGN - 1)
}

impl FrameHeader {
    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; FRAME_HEADER_LEN] {
        let mut b = [0; FRAME_HEADER_LEN];
        put(&mut b, 0, &self.len.to_le_bytes());
        b[4] = (u8::from(self.first) * FIRST)
            | (u8::from(self.last) * LAST)
            | (u8::from(self.joined) * JOINED)
            | (u8::from(self.follows) * FOLLOWS);
        b
    }

    fn decode(b: &[u8]) -> Option<FrameHeader> {
        let flags = b[4];
        if flags & !(FIRST | LAST | JOINED | FOLLOWS) != 0 || b[5..8] != [0; 3] {
            return None;
        }
        let h = FrameHeader {
            len: get_u32(b, 0),
            first: flags & FIRST != 0,
            last: flags & LAST != 0,
            joined: flags & JOINED != 0,
            follows: flags & FOLLOWS != 0,
        };
        // Only an empty record has a frame without data, so every fragment makes progress.
        (h.len > 0 || h.first && h.last).then_some(h)
    }
}

/// Iterator over the frames of a payload with a valid checksum.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    payload: &'a [u8],
    at: usize,
    base: Lsn,
    broken: bool,
}

impl<'a> Frames<'a> {
    /// Returns the frames of `payload`, whose first byte lies at `base`.
    pub fn new(payload: &'a [u8], base: Lsn) -> Self {
        Frames {
            payload,
            at: 0,
            base,
            broken: false,
        }
    }
}

/// Error: the bytes are not a frame. They were written wrong, because their checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(
    /// Position of the bytes.
    pub Lsn,
);

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken || self.at >= self.payload.len() {
            return None;
        }
        let lsn = self.base.plus(self.at as u64);
        let frame = self
            .payload
            .get(self.at..self.at + FRAME_HEADER_LEN)
            .and_then(FrameHeader::decode)
            .and_then(|header| {
                let start = self.at + FRAME_HEADER_LEN;
                if planted!("frame-beyond-payload") {
                    std::hint::black_box(&self.payload[start..start + header.len as usize]);
                }
                let data = self
                    .payload
                    .get(start..start.checked_add(header.len as usize)?)?;
                let padded = self
                    .payload
                    .get(start..start + data.len().next_multiple_of(FRAME_ALIGN))?;
                padded[data.len()..]
                    .iter()
                    .all(|&b| b == 0)
                    .then_some(Frame { lsn, header, data })
            });
        match frame {
            Some(frame) => {
                self.at += frame_len(frame.data.len());
                Some(Ok(frame))
            }
            None => {
                self.broken = true;
                Some(Err(Malformed(lsn)))
            }
        }
    }
}

/// Checks that frames fit together into records, and tracks the open atomic append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sequence {
    open: Option<Open>,
    /// True if the preceding frames are unknown. Frames of a record that began there are skipped.
    unknown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    /// Start of the atomic append.
    from: Lsn,
    /// True if the end of the current record is still to come.
    inside: bool,
    joined: bool,
    follows: bool,
    /// Length of its data so far, plus a frame header for each record.
    bytes: u64,
}

impl Sequence {
    /// Makes a sequence that starts in the middle, such as behind damage.
    pub fn unknown() -> Self {
        Sequence {
            open: None,
            unknown: true,
        }
    }

    /// Takes the next frame. Fails if it cannot follow the preceding ones.
    pub fn push(&mut self, lsn: Lsn, h: &FrameHeader) -> Result<(), Malformed> {
        if self.unknown {
            if !h.first {
                return Ok(());
            }
            self.unknown = false;
            self.open = h.follows.then_some(Open {
                from: lsn,
                inside: false,
                joined: true,
                follows: false,
                bytes: 0,
            });
        }
        let (from, before) = match self.open {
            None if h.first && !h.follows => (lsn, 0),
            Some(o) if o.inside && !h.first && (o.joined, o.follows) == (h.joined, h.follows) => {
                (o.from, o.bytes)
            }
            Some(o) if !o.inside && h.first && h.follows => (o.from, o.bytes),
            _ => return Err(Malformed(lsn)),
        };
        // Limits the data that a reader must collect before it can return any, whatever the bytes hold.
        let header = if h.first { FRAME_HEADER_LEN as u64 } else { 0 };
        let bytes = before + header + u64::from(h.len);
        if bytes > (MAX_RECORD_LEN + FRAME_HEADER_LEN) as u64 {
            return Err(Malformed(lsn));
        }
        self.open = if h.last && !h.joined {
            None
        } else {
            Some(Open {
                from,
                inside: !h.last,
                joined: h.joined,
                follows: h.follows,
                bytes,
            })
        };
        Ok(())
    }

    /// Returns the start of the atomic append (or record) that has begun and not ended, if any.
    pub fn open_from(&self) -> Option<Lsn> {
        self.open.map(|o| o.from)
    }

    /// Forgets the open append: a void range covers it.
    pub fn reset(&mut self) {
        self.open = None;
        self.unknown = false;
    }

    /// Takes all frames of a payload.
    pub fn push_all(&mut self, payload: &[u8], base: Lsn, count: u32) -> Result<(), Malformed> {
        let mut seen = 0u32;
        for frame in Frames::new(payload, base) {
            let frame = frame?;
            self.push(frame.lsn, &frame.header)?;
            seen = seen.saturating_add(1);
        }
        if seen == count {
            Ok(())
        } else {
            Err(Malformed(base))
        }
    }
}
