//! Properties over arbitrary values and arbitrary bytes.

use crate::strategies::*;
use crate::support::*;
use logforce_format::frame::{FrameHeader, Frames, Sequence};
use logforce_format::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Checks the rules of the document by recursive descent instead of a state machine. Returns the index of the
/// first frame that does not fit, or else the index at which an append is left open.
fn model(frames: &[FrameHeader]) -> Result<Option<usize>, usize> {
    let mut i = 0;
    while i < frames.len() {
        let append = i;
        let mut follows = false;
        loop {
            let Some(head) = frames.get(i) else {
                return Ok(Some(append));
            };
            if !head.first || head.follows != follows {
                return Err(i);
            }
            let mut last = head.last;
            i += 1;
            while !last {
                let Some(f) = frames.get(i) else {
                    return Ok(Some(append));
                };
                if f.first || f.joined != head.joined || f.follows != head.follows {
                    return Err(i);
                }
                last = f.last;
                i += 1;
            }
            if !head.joined {
                break;
            }
            follows = true;
        }
    }
    Ok(None)
}

/// Returns the code's result in the same terms: frame `i` lies at LSN `8 i`.
fn code(frames: &[FrameHeader]) -> Result<Option<usize>, usize> {
    let mut sequence = Sequence::default();
    for (i, f) in frames.iter().enumerate() {
        let lsn = Lsn(8 * i as u64);
        if let Err(at) = sequence.push(lsn, f) {
            assert_eq!(at.0, lsn);
            return Err(i);
        }
    }
    Ok(sequence.open_from().map(|l| l.0 as usize / 8))
}

proptest! {
    #[test]
    fn batches_round_trip((h, batch, records) in batches()) {
        let got = BatchHeader::decode(&batch).unwrap();
        let body = payload(&records);
        let meant = BatchHeader {
            payload_len: body.len() as u32,
            payload_crc: crc32c(&body),
            frames: records.len() as u32,
            crc: got.crc,
            ..h
        };
        prop_assert_eq!(got, meant);
        prop_assert_eq!(&got.encode()[..], &batch[..BATCH_HEADER_LEN]);
        prop_assert_eq!(&batch[BATCH_HEADER_LEN..BATCH_HEADER_LEN + body.len()], &body[..]);
        prop_assert!(batch[BATCH_HEADER_LEN + body.len()..].iter().all(|&b| b == 0));
        prop_assert_eq!(got.check_payload(&body), Ok(()));
    }

    /// Tests that the payload's checksum, computed in pieces as records are staged, is that of the whole.
    #[test]
    fn payload_checksum_in_pieces(pieces in vec(vec(any::<u8>(), 0..50), 0..6)) {
        let sum = pieces.iter().fold(0, |sum, piece| payload_crc(sum, piece));
        prop_assert_eq!(sum, crc32c(&pieces.concat()));
    }

    /// Tests that a flipped bit in header or payload is noticed, and one in the padding changes nothing.
    #[test]
    fn flipped_bits((_, batch, records) in batches(), bit in any::<prop::sample::Index>()) {
        let sound = BatchHeader::decode(&batch).unwrap();
        let end = BATCH_HEADER_LEN + payload(&records).len();
        let bit = bit.index(batch.len() * 8);
        let mut flipped = batch.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let header = BatchHeader::decode(&flipped);
        if bit / 8 < BATCH_HEADER_LEN {
            prop_assert!(header.is_err());
        } else {
            prop_assert_eq!(header, Ok(sound));
            let body = sound.check_payload(&flipped[BATCH_HEADER_LEN..end]);
            prop_assert_eq!(body.is_err(), bit / 8 < end);
        }
    }

    #[test]
    fn segments_round_trip(h in segments()) {
        prop_assert_eq!(SegmentHeader::decode(&h.encode()), Ok(h));
        prop_assert!(h.first_batch() < h.end());
        prop_assert!(h.contains(h.start) && !h.contains(h.end()));
    }

    #[test]
    fn controls_round_trip(c in controls()) {
        prop_assert_eq!(Control::decode(&c.encode()), Ok(c));
    }

    #[test]
    fn metas_round_trip(m in metas(), other in log_ids()) {
        prop_assert_eq!(Meta::decode(&m.encode(), m.log_id), Ok(m.clone()));
        if other != m.log_id {
            let got = Meta::decode(&m.encode(), other);
            prop_assert_eq!(got, Err(MetaReject::ForeignLog));
        }
    }

    /// Tests slots torn at a sector by a power cut during the write: each is the old one, the new one or
    /// neither.
    #[test]
    fn a_torn_slot_is_neither(a in metas(), mut b in metas(), mask in any::<u8>()) {
        b.log_id = a.log_id;
        let (old, new) = (a.encode(), b.encode());
        let mut torn = old;
        for n in (0..8).filter(|n| mask >> n & 1 == 1) {
            let part = n * 512..(n + 1) * 512;
            torn[part.clone()].copy_from_slice(&new[part]);
        }
        match Meta::decode(&torn, a.log_id) {
            Ok(got) => prop_assert!(got == a && torn == old || got == b && torn == new),
            Err(reject) => prop_assert_eq!(reject, MetaReject::Checksum),
        }
    }

    /// Tests that the oldest epochs are dropped, not the newest.
    #[test]
    fn long_histories_are_cut(mut c in controls(), extra in 1..300u64) {
        let counters = (0..EPOCH_HISTORY as u64 + extra).map(|i| 10_000 - i);
        c.history = counters.map(|counter| Epoch { counter, nonce: 1 }).collect();
        c.epoch.counter = 10_001;
        c.anchor.epoch.counter = 0;
        let got = Control::decode(&c.encode()).unwrap();
        prop_assert_eq!(&got.history[..], &c.history[..EPOCH_HISTORY]);
    }

    #[test]
    fn frames_round_trip(frames in vec(vec(any::<u8>(), 0..60), 0..12), base in any::<u64>()) {
        let frames: Vec<_> = frames.iter().map(|d| frame(d, "fl")).collect();
        let bytes = payload(&frames);
        let mut at = Lsn(base);
        for (got, meant) in Frames::new(&bytes, at).zip(&frames) {
            let got = got.unwrap();
            prop_assert_eq!((got.lsn, got.header, got.data), (at, meant.0, &meant.1[..]));
            at = got.end();
        }
        prop_assert_eq!(Frames::new(&bytes, at).count(), frames.len());
    }

    /// Tests that no bytes cause a panic, an endless loop or an access out of bounds. Checksums are corrected
    /// and magic bytes inserted, so that the bytes pass the first checks.
    #[test]
    fn hostile_bytes(mut bytes in vec(any::<u8>(), 0..5000), which in 0..7u8, zero in any::<bool>()) {
        if zero && bytes.len() > 300 {
            bytes[300..].fill(0);
        }
        let lens = [BATCH_HEADER_LEN, SEGMENT_HEADER_LEN, CONTROL_SLOT_LEN, LIVE_LEN, META_SLOT_LEN];
        let magics = [b"LFBTCH\x01\x00", b"LFSEGM\x01\x00", b"LFCTRL\x01\x00", b"LFLIVE\x01\x00", b"LFMETA\x01\x00"];
        if let (Some(&len), Some(magic)) = (lens.get(which as usize), magics.get(which as usize))
            && bytes.len() >= len
        {
            bytes[..8].copy_from_slice(*magic);
            fix(&mut bytes[..len]);
        }
        if let Ok(h) = BatchHeader::decode(&bytes) {
            let _ = (h.end(MAX_WRITE_UNIT), h.voids(), h.check_link(&expected(&data_header())));
            let _ = h.check_payload(&bytes);
        }
        if let Ok(h) = SegmentHeader::decode(&bytes) {
            prop_assert!(h.first_batch() < h.end());
        }
        let _ = Control::decode(&bytes);
        if let Ok(m) = Meta::decode(&bytes, LOG) {
            prop_assert!(m.bytes.len() <= MAX_META_LEN);
        }
        let _ = Live::decode(&bytes);
        let mut used = 0;
        for frame in Frames::new(&bytes, Lsn(u64::MAX - 100)) {
            let Ok(frame) = frame else { break };
            used += frame::FRAME_HEADER_LEN + frame.data.len();
            prop_assert!(used <= bytes.len());
        }
        let _ = Sequence::default().push_all(&bytes, Lsn(0), 3);
        let _ = Sequence::unknown().push_all(&bytes, Lsn::MAX, 3);
    }

    /// Tests valid bytes with some overwritten and the checksum corrected: bytes that decode at all encode to
    /// the same bytes, so no decoder ignores any of them.
    #[test]
    fn forged_bytes(
        (_, batch, _) in batches(),
        segment in segments(),
        control in controls(),
        meta in metas(),
        which in 0..4u8,
        changes in vec((any::<prop::sample::Index>(), 0..4u8), 0..4),
    ) {
        let mut bytes = match which {
            0 => batch[..BATCH_HEADER_LEN].to_vec(),
            1 => segment.encode().to_vec(),
            2 => meta.encode().to_vec(),
            _ => control.encode().to_vec(),
        };
        for (at, value) in changes {
            let len = bytes.len();
            bytes[at.index(len)] = value;
        }
        fix(&mut bytes);
        match which {
            0 => if let Ok(h) = BatchHeader::decode(&bytes) {
                prop_assert_eq!(&h.encode()[..], &bytes[..]);
                prop_assert!(h.stamp <= h.lsn && h.void_from <= h.lsn && h.last_void < h.lsn);
                prop_assert!(h.extent(MAX_WRITE_UNIT) <= u64::from(MAX_BATCH_LEN));
            },
            1 => if let Ok(h) = SegmentHeader::decode(&bytes) {
                prop_assert_eq!(&h.encode()[..], &bytes[..]);
                prop_assert!(h.first_batch() < h.end());
            },
            2 => if let Ok(m) = Meta::decode(&bytes, meta.log_id) {
                prop_assert_eq!(&m.encode()[..], &bytes[..]);
                prop_assert!(m.bytes.len() <= MAX_META_LEN);
            },
            _ => if let Ok(c) = Control::decode(&bytes) {
                prop_assert_eq!(&c.encode()[..], &bytes[..]);
                prop_assert!(c.history.len() <= EPOCH_HISTORY);
            },
        }
    }

    /// Tests bytes similar to frames, so that more than one frame is accepted.
    #[test]
    fn hostile_frames(words in vec((0..40u32, 0..32u8), 0..200)) {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|&(len, flags)| {
                let mut h = [0; 8];
                h[..4].copy_from_slice(&len.to_le_bytes());
                h[4] = flags;
                h
            })
            .collect();
        let mut results = Frames::new(&bytes, Lsn(0));
        let mut count = 0;
        while let Some(frame) = results.next() {
            count += 1;
            prop_assert!(count <= words.len());
            if frame.is_err() {
                prop_assert!(results.next().is_none(), "goes on behind a malformed frame");
            }
        }
    }

    #[test]
    fn sequences_of_a_writer(frames in legal_frames()) {
        prop_assert_eq!(code(&frames), Ok(None));
    }

    #[test]
    fn any_sequence_as_the_model_says(frames in any_frames()) {
        prop_assert_eq!(code(&frames), model(&frames));
    }

    /// Tests sequences with one frame dropped, doubled, swapped with the next, or with a flipped flag. They
    /// are rejected, unless a writer could have made the result.
    #[test]
    fn mutated_sequences(
        frames in legal_frames(),
        at in any::<prop::sample::Index>(),
        how in 0..7u8,
    ) {
        let mut mutated = frames.clone();
        let i = at.index(frames.len());
        match how {
            0 => drop(mutated.remove(i)),
            1 => mutated.insert(i, frames[i]),
            2 => mutated.swap(i, (i + 1) % frames.len()),
            3 => mutated[i].first ^= true,
            4 => mutated[i].last ^= true,
            5 => mutated[i].joined ^= true,
            _ => mutated[i].follows ^= true,
        }
        prop_assert_eq!(code(&mutated), model(&mutated));
    }

    /// Tests sequences that start in the middle: frames of the earlier record are skipped, and the rules hold
    /// from the beginning of the next record on.
    #[test]
    fn sequences_from_the_middle(frames in legal_frames(), at in any::<prop::sample::Index>()) {
        let from = at.index(frames.len());
        let mut sequence = Sequence::unknown();
        for (i, f) in frames.iter().enumerate().skip(from) {
            prop_assert!(sequence.push(Lsn(8 * i as u64), f).is_ok(), "frame {} of {:?}", i, frames);
        }
        prop_assert_eq!(sequence.open_from(), None);
        let first = frames.iter().skip(from).any(|f| f.first);
        if first {
            let stray = FrameHeader { first: false, ..frames[0] };
            prop_assert!(sequence.push(Lsn(0), &stray).is_err());
        }
    }

    #[test]
    fn newest_slot(a in controls(), b in controls(), valid in 0..4u8) {
        let bad = Err(ControlReject::Checksum);
        let slots = [
            if valid & 1 > 0 { Ok(a.clone()) } else { bad.clone() },
            if valid & 2 > 0 { Ok(b.clone()) } else { bad },
        ];
        let meant = match valid {
            0 => Err([ControlReject::Checksum; 2]),
            1 => Ok((0, a)),
            2 => Ok((1, b)),
            _ if b.sequence > a.sequence => Ok((1, b)),
            _ => Ok((0, a)),
        };
        prop_assert_eq!(newest(slots), meant);
    }
}

#[test]
fn slots_of_equal_sequence() {
    let (a, mut b) = (control(), control());
    b.front = b.anchor.lsn;
    assert_eq!(newest([Ok(a.clone()), Ok(b)]), Ok((0, a)));
}

/// Tests that an append is limited, however many frames it consists of.
#[test]
fn appends_are_bounded() {
    let part = 1 << 20;
    let count = MAX_RECORD_LEN / part;
    let fragment = |i: usize, last| FrameHeader {
        len: part as u32,
        first: i == 0,
        last,
        joined: false,
        follows: false,
    };
    let mut whole = Sequence::default();
    for i in 0..count {
        whole.push(Lsn(8), &fragment(i, i + 1 == count)).unwrap();
    }
    assert_eq!(whole.open_from(), None);
    let mut endless = Sequence::default();
    let taken = (0..2 * count).take_while(|&i| endless.push(Lsn(8), &fragment(i, false)).is_ok());
    assert_eq!(taken.count(), count);
    let record = |follows| FrameHeader {
        len: 0,
        first: true,
        last: true,
        joined: true,
        follows,
    };
    let mut joined = Sequence::default();
    let taken =
        (0..2 * MAX_RECORD_LEN / 8).take_while(|&i| joined.push(Lsn(8), &record(i > 0)).is_ok());
    assert_eq!(taken.count(), MAX_RECORD_LEN / 8 + 1);
}
