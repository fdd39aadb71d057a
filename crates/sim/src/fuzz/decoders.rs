//! Every decoder of the format: it must return, and encoding its result must give the same bytes.

use super::sealing::seal;
use arbitrary::Arbitrary;
use logforce_format::frame::{FRAME_HEADER_LEN, Frames, Sequence, frame_len};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, CONTROL_SLOT_LEN, Control, Epoch, Expected, LIVE_LEN, Live,
    LogId, Lsn, META_SLOT_LEN, MetaSlots, NextBatch, SEGMENT_HEADER_LEN, SegmentHeader, decide,
    newest, newest_meta,
};

/// Bytes for a decoder.
#[derive(Debug, Arbitrary)]
pub(super) struct Input<'a> {
    what: What,
    /// True if the bytes begin with the correct magic and version.
    begins: bool,
    /// True if they have a correct checksum.
    sealed: bool,
    bytes: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum What {
    Batch {
        epoch: u8,
        prev_crc: Option<u32>,
        room: u16,
    },
    Frames {
        base: u64,
        count: u8,
        unknown: bool,
    },
    Segment,
    Control,
    Meta {
        had: bool,
    },
    Live,
}

/// Returns bytes of the structure's length, filled with zeroes after the end of the input.
fn sized<const N: usize>(input: &Input<'_>, magic: &[u8; 6]) -> [u8; N] {
    let mut all = [0; N];
    let len = input.bytes.len().min(N);
    all[..len].copy_from_slice(&input.bytes[..len]);
    if input.begins {
        all[..6].copy_from_slice(magic);
        all[6..8].copy_from_slice(&logforce_format::FORMAT_VERSION.to_le_bytes());
    }
    if input.sealed {
        seal(&mut all);
    }
    all
}

pub(super) fn run(input: Input<'_>) {
    match input.what {
        What::Batch {
            epoch,
            prev_crc,
            room,
        } => batch(&input, epoch, prev_crc, room),
        What::Frames {
            base,
            count,
            unknown,
        } => frames(input.bytes, Lsn(base), count, unknown),
        What::Segment => segment(&input),
        What::Control => control(&input),
        What::Meta { had } => meta(&input, had),
        What::Live => live(&input),
    }
}

fn batch(input: &Input<'_>, epoch: u8, prev_crc: Option<u32>, room: u16) {
    let b: [u8; BATCH_HEADER_LEN] = sized(input, b"LFBTCH");
    let short = input.bytes.len() < BATCH_HEADER_LEN;
    assert!(!short || BatchHeader::decode(input.bytes).is_err());
    match BatchHeader::decode(&b) {
        Ok(h) => {
            assert_eq!(h.encode(), b, "encoding a batch header gives other bytes");
            assert!(h.stamp <= h.lsn && h.void_from <= h.lsn && h.last_void < h.lsn);
            assert!(h.end(4096) > h.lsn || h.lsn.plus(4096) == Lsn::MAX);
            let e = Expected {
                log_id: h.log_id,
                lsn: h.lsn,
                segment_end: h.lsn.plus(u64::from(room) * 512),
                write_unit: 512,
                epoch: Epoch {
                    counter: epoch.into(),
                    nonce: h.epoch.nonce,
                },
                prev_crc: prev_crc.unwrap_or(h.prev_crc),
            };
            if h.check_link(&e).is_ok() {
                assert!(h.end(512) <= e.segment_end && h.prev_crc == e.prev_crc);
                assert!(h.epoch.counter >= e.epoch.counter);
            }
            let payload = input.bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]);
            if h.check_payload(payload).is_ok() {
                assert_eq!(payload.len(), h.payload_len as usize);
            }
        }
        Err(reject) => {
            assert!(!reject.name().is_empty() && !reject.to_string().is_empty());
            let seen = NextBatch::of(reject);
            let _ = decide(seen, room & 1 == 0, room & 2 == 0).decision();
        }
    }
}

fn frames(payload: &[u8], base: Lsn, count: u8, unknown: bool) {
    let mut at = 0;
    let mut whole = true;
    for frame in Frames::new(payload, base) {
        let Ok(frame) = frame else {
            whole = false;
            continue;
        };
        assert!(whole, "a frame after a broken one");
        assert_eq!(frame.lsn, base.plus(at as u64));
        assert_eq!(frame.header.len as usize, frame.data.len());
        let mut again = frame.header.encode().to_vec();
        again.extend_from_slice(frame.data);
        again.resize(frame_len(frame.data.len()), 0);
        assert_eq!(again, payload[at..at + again.len()], "frame");
        assert!(again.len() >= FRAME_HEADER_LEN);
        at += again.len();
    }
    assert_eq!(whole, at == payload.len(), "bytes that belong to no frame");
    let mut sequence = if unknown {
        Sequence::unknown()
    } else {
        Sequence::default()
    };
    let taken = sequence.push_all(payload, base, count.into());
    assert!(whole || taken.is_err(), "a broken frame was accepted");
    if let (Ok(()), Some(from)) = (taken, sequence.open_from()) {
        assert!(from >= base);
    }
}

fn segment(input: &Input<'_>) {
    let b: [u8; SEGMENT_HEADER_LEN] = sized(input, b"LFSEGM");
    match SegmentHeader::decode(&b) {
        Ok(h) => {
            assert_eq!(h.encode(), b, "encoding a segment header gives other bytes");
            assert!(h.first_batch() < h.end() && h.contains(h.start) && !h.contains(h.end()));
        }
        Err(reject) => assert!(!reject.name().is_empty() && !reject.to_string().is_empty()),
    }
}

fn control(input: &Input<'_>) {
    let b: [u8; CONTROL_SLOT_LEN] = sized(input, b"LFCTRL");
    let read = Control::decode(&b);
    match &read {
        Ok(c) => {
            assert_eq!(
                c.encode()[..],
                b[..],
                "encoding a control slot gives other bytes"
            );
            assert!(c.first_segment <= c.front && c.front <= c.anchor.lsn);
            assert!(c.anchor.lsn <= c.prepared_end && c.knows(c.epoch));
        }
        Err(reject) => assert!(!reject.name().is_empty() && !reject.to_string().is_empty()),
    }
    let valid = read.is_ok();
    let other = Control::decode(input.bytes);
    let any = valid || other.is_ok();
    assert_eq!(newest([read, other]).is_ok(), any);
}

fn meta(input: &Input<'_>, had: bool) {
    let b: [u8; META_SLOT_LEN] = sized(input, b"LFMETA");
    let mut id = LogId::default();
    id.0.copy_from_slice(&b[16..32]);
    let read = logforce_format::Meta::decode(&b, id);
    match &read {
        Ok(m) => assert_eq!(m.encode()[..], b[..], "encoding metadata gives other bytes"),
        Err(reject) => assert!(!reject.name().is_empty() && !reject.to_string().is_empty()),
    }
    let valid = read.is_ok();
    let other = logforce_format::Meta::decode(input.bytes, id);
    let any = valid || other.is_ok();
    let is = matches!(newest_meta([read, other], had), MetaSlots::Is(..));
    assert_eq!(is, any);
}

fn live(input: &Input<'_>) {
    let b: [u8; LIVE_LEN] = sized(input, b"LFLIVE");
    match Live::decode(&b) {
        Ok(l) => assert_eq!(l.encode()[..], b[..], "encoding a page gives other bytes"),
        Err(reject) => assert!(!reject.name().is_empty() && !reject.to_string().is_empty()),
    }
}
