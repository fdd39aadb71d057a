//! Tests that every flipped bit of everything with a checksum is noticed.

use crate::support::*;
use logforce_format::*;

fn each_bit(bytes: &[u8], mut visit: impl FnMut(usize, &[u8])) {
    let mut flipped = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        visit(bit, &flipped);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn batch_headers() {
    for header in [data_header(), epoch_header(), stamp_header(), void_header()] {
        let batch = match header.kind {
            BatchKind::Data => one_record(b"a record"),
            _ => sealed(header, &[], 0, 512),
        };
        let bytes = &batch[..BATCH_HEADER_LEN];
        assert!(BatchHeader::decode(bytes).is_ok());
        each_bit(bytes, |bit, b| {
            let expected = if bit < 48 {
                Reject::Magic
            } else {
                Reject::HeaderChecksum
            };
            assert_eq!(BatchHeader::decode(b), Err(expected), "bit {bit}");
        });
    }
}

#[test]
fn payload() {
    let batch = one_record(b"a record of a few bytes");
    let h = BatchHeader::decode(&batch).unwrap();
    let end = BATCH_HEADER_LEN + h.payload_len as usize;
    assert_eq!(h.check_payload(&batch[BATCH_HEADER_LEN..end]), Ok(()));
    each_bit(&batch[BATCH_HEADER_LEN..end], |bit, b| {
        assert_eq!(
            h.check_payload(b),
            Err(Reject::PayloadChecksum),
            "bit {bit}"
        );
    });
}

#[test]
fn segment_header() {
    each_bit(&segment().encode(), |bit, b| {
        let expected = if bit < 48 {
            SegmentReject::Magic
        } else {
            SegmentReject::Checksum
        };
        assert_eq!(SegmentHeader::decode(b), Err(expected), "bit {bit}");
    });
}

/// Includes the zeroes behind the history: a slot is valid as a whole or not at all.
#[test]
fn control_slot() {
    let bytes = control().encode();
    assert_eq!(bytes.len(), CONTROL_SLOT_LEN);
    each_bit(&bytes, |bit, b| {
        let expected = if bit < 48 {
            ControlReject::Magic
        } else {
            ControlReject::Checksum
        };
        assert_eq!(Control::decode(b), Err(expected), "bit {bit}");
    });
}

/// Includes the zeroes behind the bytes.
#[test]
fn meta_slot() {
    let bytes = meta().encode();
    assert_eq!(bytes.len(), META_SLOT_LEN);
    each_bit(&bytes, |bit, b| {
        let expected = if bit < 48 {
            MetaReject::Magic
        } else {
            MetaReject::Checksum
        };
        assert_eq!(Meta::decode(b, LOG), Err(expected), "bit {bit}");
    });
}
