//! Walks the tables of `docs/format.md` and holds them against the code.

mod support;

use logforce_format::frame::{FRAME_ALIGN, FRAME_HEADER_LEN, FrameHeader, Frames};
use logforce_format::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use support::{LOG, crc32c, fix, table, tables};

/// Bytes in which no two are alike, so that a field found at a wrong place is noticed.
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

/// Holds a table of fields against encoded bytes: every field named lies exactly where the table
/// says, the table covers every byte once, and names every field.
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

/// Sets each byte that the table calls zero, with the checksum made right again.
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
        &support::data_header_with_record(),
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
    ];
    check_fields("segment-header", &header.encode(), &fields, true);
    each_reserved_byte("segment-header", &support::segment().encode(), |bytes| {
        let mut bytes = bytes.to_vec();
        fix(&mut bytes);
        SegmentHeader::decode(&bytes) == Err(SegmentReject::Reserved)
    });
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
        first_prev_crc: u32_of(0x40),
        clean: true,
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
        ("epoch.counter", pattern(0x6c, 8)),
        ("epoch.nonce", pattern(0x74, 8)),
        ("history_len", (EPOCH_HISTORY as u32).to_le_bytes().to_vec()),
        ("history", history),
    ];
    check_fields("control-slot", &control.encode(), &fields, true);
    each_reserved_byte("control-slot", &support::control().encode(), |bytes| {
        let mut bytes = bytes.to_vec();
        fix(&mut bytes);
        Control::decode(&bytes) == Err(ControlReject::Reserved)
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
    let record = support::payload(&[support::frame(b"12345678", "fl")]);
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

#[test]
fn constants() {
    let code: BTreeMap<&str, u64> = [
        ("FORMAT_VERSION", u64::from(FORMAT_VERSION)),
        ("BATCH_HEADER_LEN", BATCH_HEADER_LEN as u64),
        ("MAX_BATCH_LEN", u64::from(MAX_BATCH_LEN)),
        ("FRAME_HEADER_LEN", FRAME_HEADER_LEN as u64),
        ("FRAME_ALIGN", FRAME_ALIGN as u64),
        ("MAX_RECORD_LEN", MAX_RECORD_LEN as u64),
        ("SEGMENT_HEADER_LEN", SEGMENT_HEADER_LEN as u64),
        (
            "MIN_HEADER_AREA",
            SegmentHeader::data_offset(MIN_WRITE_UNIT),
        ),
        ("MIN_WRITE_UNIT", u64::from(MIN_WRITE_UNIT)),
        ("MAX_WRITE_UNIT", u64::from(MAX_WRITE_UNIT)),
        ("MIN_SEGMENT_LEN", MIN_SEGMENT_LEN),
        ("MAX_SEGMENT_LEN", MAX_SEGMENT_LEN),
        ("CONTROL_SLOT_LEN", CONTROL_SLOT_LEN as u64),
        ("CONTROL_SLOT_OFFSET_0", CONTROL_SLOT_OFFSETS[0]),
        ("CONTROL_SLOT_OFFSET_1", CONTROL_SLOT_OFFSETS[1]),
        ("CONTROL_FILE_LEN", CONTROL_FILE_LEN),
        ("EPOCH_HISTORY", EPOCH_HISTORY as u64),
    ]
    .into();
    let rows = table("constants");
    let doc: BTreeMap<&str, u64> = rows
        .iter()
        .map(|r| (&r[0][..], r[1].parse().unwrap()))
        .collect();
    assert_eq!(doc, code);
    assert_eq!(rows.len(), code.len(), "a constant is listed twice");
    assert_eq!(SegmentHeader::data_offset(MAX_WRITE_UNIT), 65536);
}

/// Tries every combination of payload, void range and predecessor on every kind.
#[test]
fn kinds() {
    let rows = table("kinds");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let code: u8 = row[0].parse().unwrap();
        for (payload, void, prev) in (0..8).map(|i| (i & 1 > 0, i & 2 > 0, i & 4 > 0)) {
            let mut header = support::data_header();
            if payload {
                (header.payload_len, header.frames) = (8, 1);
            }
            if void {
                header.void_from = Lsn(header.lsn.0 - 1000);
            }
            if prev {
                header.prev_epoch = support::FIRST;
            }
            let mut bytes = header.encode();
            bytes[88] = code;
            fix(&mut bytes);
            let fits = |word: &str, is: bool| match word {
                "yes" => is,
                "no" => !is,
                "may" => true,
                other => panic!("what is '{other}'?"),
            };
            let legal = fits(&row[2], payload) && fits(&row[3], void) && fits(&row[4], prev);
            let decoded = BatchHeader::decode(&bytes);
            assert_eq!(
                decoded.is_ok(),
                legal,
                "{}: payload {payload}, void {void}, predecessor {prev}: {decoded:?}",
                row[1]
            );
            if let Ok(h) = decoded {
                assert_eq!(format!("{:?}", h.kind), row[1]);
            }
        }
    }
}

#[test]
fn rejects_are_listed() {
    let samples = [
        Reject::Zero,
        Reject::Magic,
        Reject::HeaderChecksum,
        Reject::Version(2),
        Reject::Kind(9),
        Reject::Reserved,
        Reject::Length(1),
        Reject::StampAhead,
        Reject::VoidRange,
        Reject::PrevEpoch,
        Reject::ForeignLog,
        Reject::WrongLsn(Lsn(1)),
        Reject::PastSegment,
        Reject::EpochLower(1),
        Reject::EpochUnlinked(1),
        Reject::Chain,
        Reject::PayloadChecksum,
        Reject::Frames,
    ];
    let code: Vec<(&str, &str)> = samples
        .iter()
        .map(|r| (r.name(), Seen::of(*r).label()))
        .collect();
    let names: Vec<&str> = code.iter().map(|c| c.0).collect();
    assert_eq!(names, Reject::NAMES, "a variant has no sample here");
    let rows = table("batch-rejects");
    let doc: Vec<(&str, &str)> = rows.iter().map(|r| (&r[0][..], &r[1][..])).collect();
    assert_eq!(doc, code);
    for (name, names) in [
        ("segment-rejects", SegmentReject::NAMES),
        ("control-rejects", ControlReject::NAMES),
    ] {
        let rows = table(name);
        let doc: Vec<&str> = rows.iter().map(|r| &r[0][..]).collect();
        assert_eq!(doc, names);
    }
}

#[test]
fn labels_are_listed() {
    fn column(name: &str) -> Vec<String> {
        table(name).into_iter().map(|mut r| r.remove(0)).collect()
    }
    assert_eq!(column("seen"), Seen::ALL.map(Seen::label));
    assert_eq!(column("decision-words"), Decision::ALL.map(Decision::label));
    assert_eq!(column("cases"), Case::ALL.map(Case::label));
}

#[test]
fn decision_table() {
    let rows = table("decisions");
    let mut cases = BTreeSet::new();
    for seen in Seen::ALL {
        for (stamped, resumed) in [(false, false), (false, true), (true, false), (true, true)] {
            let matches = |word: &str, is: bool| match word {
                "any" => true,
                "yes" => is,
                "no" => !is,
                other => panic!("what is '{other}'?"),
            };
            let hits: Vec<_> = rows
                .iter()
                .filter(|r| {
                    r[0] == seen.label() && matches(&r[1], stamped) && matches(&r[2], resumed)
                })
                .collect();
            let what = format!("{}, stamped {stamped}, resumed {resumed}", seen.label());
            assert_eq!(hits.len(), 1, "rows for {what}");
            let case = decide(seen, stamped, resumed);
            cases.insert(case);
            assert_eq!(hits[0][3], case.label(), "{what}");
            assert_eq!(hits[0][4], case.decision().label(), "{what}");
        }
    }
    let labels: BTreeSet<_> = Seen::ALL.map(Seen::label).into();
    for row in &rows {
        assert!(labels.contains(&row[0][..]), "no such thing: {}", row[0]);
    }
    assert_eq!(cases, Case::ALL.into(), "a case that nothing leads to");
}

/// A table that no test walks could say anything.
#[test]
fn every_table_is_walked() {
    // `files` names what `core` makes; it is held against the code there.
    let mut walked = vec![
        "constants",
        "files",
        "segment-header",
        "batch-header",
        "kinds",
        "frame-header",
        "frame-flags",
        "control-slot",
        "batch-rejects",
        "segment-rejects",
        "control-rejects",
        "seen",
        "decisions",
        "decision-words",
        "cases",
    ];
    let mut found = tables();
    walked.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, walked);
}

#[test]
fn the_reference_checksum_is_crc32c() {
    // RFC 3720, B.4.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    // The payload's checksum is the same one.
    let batch = support::one_record(b"payload");
    let h = BatchHeader::decode(&batch).unwrap();
    let end = BATCH_HEADER_LEN + h.payload_len as usize;
    assert_eq!(h.payload_crc, crc32c(&batch[BATCH_HEADER_LEN..end]));
    assert_eq!(h.log_id, LOG);
}
