//! Compares the tables of fields in `docs/format.md` with encoded bytes.

use crate::support::{crc32c, fix, table};
use logforce_format::frame::{FrameHeader, Frames};
use logforce_format::*;
use std::collections::HashMap;

/// Makes distinct bytes, so that a field at a wrong offset is noticed.
fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|i| seed + i as u8).collect()
}

fn u64_of(seed: u8) -> u64 {
    u64::from_le_bytes(pattern(seed, 8).try_into().unwrap())
}

fn u32_of(seed: u8) -> u32 {
    u32::from_le_bytes(pattern(seed, 4).try_into().unwrap())
}

fn epoch_of(counter: u8, nonce: u8) -> Epoch {
    Epoch {
        counter: u64_of(counter),
        nonce: u64_of(nonce),
    }
}

/// Compares a table of fields with encoded bytes. Every field lies exactly where the table says, the table
/// covers every byte once, and it names every field.
fn check_fields(name: &str, bytes: &[u8], fields: &[(&str, Vec<u8>)], zero_is_checked: bool) {
    let mut fields: HashMap<&str, &[u8]> = fields.iter().map(|(k, v)| (*k, &v[..])).collect();
    let mut at = 0;
    for row in table(name) {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, at, "{name}: hole or overlap before '{}'", row[2]);
        at += size;
        let found = &bytes[offset..at];
        match &row[2][..] {
            "zero" => assert!(
                found.iter().all(|&b| b == 0),
                "{name}: {offset} is not zero"
            ),
            "checksum" if zero_is_checked => {
                let mut holed = bytes.to_vec();
                holed[offset..at].fill(0);
                assert_eq!(found, crc32c(&holed).to_le_bytes(), "{name}: checksum");
            }
            field => {
                let expected = fields
                    .remove(field)
                    .unwrap_or_else(|| panic!("{name}: the code has no '{field}'"));
                assert_eq!(found, expected, "{name}: '{field}'");
            }
        }
    }
    assert_eq!(
        at,
        bytes.len(),
        "{name}: the table does not cover all bytes"
    );
    assert!(
        fields.is_empty(),
        "{name}: not in the table: {:?}",
        fields.keys()
    );
}

/// Sets each byte that the table calls zero, and corrects the checksum.
fn each_reserved_byte(name: &str, valid: &[u8], mut rejects: impl FnMut(&[u8]) -> bool) {
    let mut seen = 0;
    for row in table(name).iter().filter(|r| r[2] == "zero") {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        for at in offset..offset + size {
            let mut bytes = valid.to_vec();
            bytes[at] = 1;
            assert!(rejects(&bytes), "{name}: reserved byte {at} is not checked");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn batch_header() {
    let header = BatchHeader {
        log_id: LogId(pattern(0x10, 16).try_into().unwrap()),
        lsn: Lsn(u64_of(0x20)),
        epoch: epoch_of(0x28, 0x30),
        kind: BatchKind::Stamp,
        stamp: Lsn(u64_of(0x38)),
        void_from: Lsn(u64_of(0x40)),
        last_void: Lsn(u64_of(0x48)),
        prev_crc: u32_of(0x50),
        payload_len: u32_of(0x54),
        payload_crc: u32_of(0x58),
        frames: u32_of(0x5c),
        prev_epoch: epoch_of(0x60, 0x68),
        crc: 0,
    };
    let fields = [
        ("magic", b"LFBTCH".to_vec()),
        ("version", FORMAT_VERSION.to_le_bytes().to_vec()),
        ("log_id", pattern(0x10, 16)),
        ("lsn", pattern(0x20, 8)),
        ("epoch.counter", pattern(0x28, 8)),
        ("epoch.nonce", pattern(0x30, 8)),
        ("stamp", pattern(0x38, 8)),
        ("void_from", pattern(0x40, 8)),
        ("last_void", pattern(0x48, 8)),
        ("prev_crc", pattern(0x50, 4)),
        ("payload_len", pattern(0x54, 4)),
        ("payload_crc", pattern(0x58, 4)),
        ("kind", vec![2]),
        ("frames", pattern(0x5c, 4)),
        ("prev_epoch.counter", pattern(0x60, 8)),
        ("prev_epoch.nonce", pattern(0x68, 8)),
    ];
    check_fields("batch-header", &header.encode(), &fields, true);
    each_reserved_byte(
        "batch-header",
        &crate::support::data_header_with_record(),
        |bytes| {
            let mut bytes = bytes.to_vec();
            fix(&mut bytes);
            BatchHeader::decode(&bytes) == Err(Reject::Reserved)
        },
    );
}

#[test]
fn segment_header() {
    let header = SegmentHeader {
        log_id: LogId(pattern(0x10, 16).try_into().unwrap()),
        start: Lsn(u64_of(0x20)),
        len: u64_of(0x28),
        write_unit: u32_of(0x30),
        epoch: epoch_of(0x38, 0x40),
        unwritten: true,
    };
    let fields = [
        ("magic", b"LFSEGM".to_vec()),
        ("version", FORMAT_VERSION.to_le_bytes().to_vec()),
        ("write_unit", pattern(0x30, 4)),
        ("log_id", pattern(0x10, 16)),
        ("start", pattern(0x20, 8)),
        ("len", pattern(0x28, 8)),
        ("epoch.counter", pattern(0x38, 8)),
        ("epoch.nonce", pattern(0x40, 8)),
        ("unwritten", vec![1]),
    ];
    check_fields("segment-header", &header.encode(), &fields, true);
    each_reserved_byte(
        "segment-header",
        &crate::support::segment().encode(),
        |bytes| {
            let mut bytes = bytes.to_vec();
            fix(&mut bytes);
            SegmentHeader::decode(&bytes) == Err(SegmentReject::Reserved)
        },
    );
}

#[test]
fn control_slot() {
    let mut history: Vec<u8> = Vec::new();
    let epochs: Vec<Epoch> = (0..EPOCH_HISTORY as u64)
        .map(|i| Epoch {
            counter: 1000 - i,
            nonce: i << 32 | 0xabcd,
        })
        .collect();
    for e in &epochs {
        history.extend(e.counter.to_le_bytes());
        history.extend(e.nonce.to_le_bytes());
    }
    let control = Control {
        log_id: LogId(pattern(0x10, 16).try_into().unwrap()),
        sequence: u64_of(0x20),
        front: Lsn(u64_of(0x28)),
        first_segment: Lsn(u64_of(0x30)),
        prepared_end: Lsn(u64_of(0x38)),
        write_limit: Lsn(u64_of(0x7c)),
        first_prev_crc: u32_of(0x40),
        clean: true,
        has_meta: true,
        anchor: Anchor {
            lsn: Lsn(u64_of(0x48)),
            prev_crc: u32_of(0x50),
            epoch: epoch_of(0x54, 0x5c),
            last_void: Lsn(u64_of(0x64)),
        },
        epoch: epoch_of(0x6c, 0x74),
        history: epochs,
    };
    let fields = [
        ("magic", b"LFCTRL".to_vec()),
        ("version", FORMAT_VERSION.to_le_bytes().to_vec()),
        ("clean", 1u32.to_le_bytes().to_vec()),
        ("log_id", pattern(0x10, 16)),
        ("sequence", pattern(0x20, 8)),
        ("front", pattern(0x28, 8)),
        ("first_segment", pattern(0x30, 8)),
        ("prepared_end", pattern(0x38, 8)),
        ("first_prev_crc", pattern(0x40, 4)),
        ("anchor.lsn", pattern(0x48, 8)),
        ("anchor.prev_crc", pattern(0x50, 4)),
        ("anchor.epoch.counter", pattern(0x54, 8)),
        ("anchor.epoch.nonce", pattern(0x5c, 8)),
        ("anchor.last_void", pattern(0x64, 8)),
        ("has_meta", 1u32.to_le_bytes().to_vec()),
        ("epoch.counter", pattern(0x6c, 8)),
        ("epoch.nonce", pattern(0x74, 8)),
        ("history_len", (EPOCH_HISTORY as u32).to_le_bytes().to_vec()),
        ("write_limit", pattern(0x7c, 8)),
        ("history", history),
    ];
    check_fields("control-slot", &control.encode(), &fields, true);
    each_reserved_byte(
        "control-slot",
        &crate::support::control().encode(),
        |bytes| {
            let mut bytes = bytes.to_vec();
            fix(&mut bytes);
            Control::decode(&bytes) == Err(ControlReject::Reserved)
        },
    );
}

#[test]
fn live() {
    let counters: Vec<u64> = (0..LIVE_COUNTERS as u64).map(|i| i << 32 | 0xc0).collect();
    let values: Vec<u64> = (0..7 * LIVE_SUMMARIES as u64)
        .map(|i| i << 24 | 0x55)
        .collect();
    let summary = |v: &[u64]| LiveSummary {
        count: v[0],
        sum: v[1],
        p50: v[2],
        p90: v[3],
        p99: v[4],
        p999: v[5],
        max: v[6],
    };
    let live = Live {
        log_id: LogId(pattern(0x10, 16).try_into().unwrap()),
        epoch: epoch_of(0x20, 0x28),
        pid: u64_of(0x30),
        written_at: u64_of(0x38),
        open_for: u64_of(0x40),
        durable: Lsn(u64_of(0x48)),
        oldest_io_age: u64_of(0x50),
        counters: counters.clone(),
        summaries: values.chunks(7).map(summary).collect(),
    };
    let bytes_of = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let fields = [
        ("magic", b"LFLIVE".to_vec()),
        ("version", FORMAT_VERSION.to_le_bytes().to_vec()),
        ("counters_len", vec![128, 0]),
        ("summaries_len", vec![32, 0]),
        ("log_id", pattern(0x10, 16)),
        ("epoch.counter", pattern(0x20, 8)),
        ("epoch.nonce", pattern(0x28, 8)),
        ("pid", pattern(0x30, 8)),
        ("written_at", pattern(0x38, 8)),
        ("open_for", pattern(0x40, 8)),
        ("durable", pattern(0x48, 8)),
        ("oldest_io_age", pattern(0x50, 8)),
        ("counters", bytes_of(&counters)),
        ("summaries", bytes_of(&values)),
    ];
    check_fields("live", &live.encode(), &fields, true);
    assert_eq!(Live::decode(&live.encode()), Ok(live));
    each_reserved_byte("live", &crate::support::live().encode(), |bytes| {
        let mut bytes = bytes.to_vec();
        fix(&mut bytes);
        Live::decode(&bytes) == Err(LiveReject::Reserved)
    });
}

#[test]
fn meta_slot() {
    let owner: Vec<u8> = (0..MAX_META_LEN).map(|i| (i % 251) as u8).collect();
    let meta = Meta {
        log_id: LogId(pattern(0x10, 16).try_into().unwrap()),
        sequence: u64_of(0x20),
        bytes: owner.clone(),
    };
    let fields = [
        ("magic", b"LFMETA".to_vec()),
        ("version", FORMAT_VERSION.to_le_bytes().to_vec()),
        ("len", (MAX_META_LEN as u32).to_le_bytes().to_vec()),
        ("log_id", pattern(0x10, 16)),
        ("sequence", pattern(0x20, 8)),
        ("bytes", owner),
    ];
    check_fields("meta-slot", &meta.encode(), &fields, true);
    each_reserved_byte("meta-slot", &crate::support::meta().encode(), |bytes| {
        let mut bytes = bytes.to_vec();
        fix(&mut bytes);
        Meta::decode(&bytes, crate::support::LOG) == Err(MetaReject::Reserved)
    });
}

#[test]
fn frame_header() {
    let all = FrameHeader {
        len: u32_of(0x11),
        first: true,
        last: true,
        joined: true,
        follows: true,
    };
    let fields = [("len", pattern(0x11, 4)), ("flags", vec![0b1111])];
    check_fields("frame-header", &all.encode(), &fields, false);
    for row in table("frame-flags") {
        let h = FrameHeader {
            len: 0,
            first: row[1] == "first",
            last: row[1] == "last",
            joined: row[1] == "joined",
            follows: row[1] == "follows",
        };
        let bit: u8 = row[0].parse().unwrap();
        assert_eq!(h.encode()[4], 1 << bit, "flag '{}'", row[1]);
    }
    assert_eq!(table("frame-flags").len(), 4);
    let record = crate::support::payload(&[crate::support::frame(b"12345678", "fl")]);
    each_reserved_byte("frame-header", &record, |bytes| {
        Frames::new(bytes, Lsn(0))
            .next()
            .is_some_and(|f| f.is_err())
    });
    for bit in 4..8 {
        let mut bytes = record.clone();
        bytes[4] |= 1 << bit;
        assert!(Frames::new(&bytes, Lsn(0)).next().unwrap().is_err());
    }
}
