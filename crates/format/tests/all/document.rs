//! Compares the tables of `docs/format.md` with the code. The tables of fields are in `document_fields.rs`.

use crate::support::{LOG, crc32c, fix, table, tables};
use logforce_format::frame::{FRAME_ALIGN, FRAME_HEADER_LEN};
use logforce_format::*;
use std::collections::{BTreeMap, BTreeSet};

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
        ("META_SLOT_LEN", META_SLOT_LEN as u64),
        ("META_SLOT_OFFSET_0", META_SLOT_OFFSETS[0]),
        ("META_SLOT_OFFSET_1", META_SLOT_OFFSETS[1]),
        ("MAX_META_LEN", MAX_META_LEN as u64),
        ("EPOCH_HISTORY", EPOCH_HISTORY as u64),
        ("LIVE_LEN", LIVE_LEN as u64),
        ("LIVE_COUNTERS", LIVE_COUNTERS as u64),
        ("LIVE_SUMMARIES", LIVE_SUMMARIES as u64),
        ("LIVE_SUMMARY_LEN", LIVE_SUMMARY_LEN as u64),
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
            let mut header = crate::support::data_header();
            if payload {
                (header.payload_len, header.frames) = (8, 1);
            }
            if void {
                header.void_from = Lsn(header.lsn.0 - 1000);
            }
            if prev {
                header.prev_epoch = crate::support::FIRST;
            }
            let mut bytes = header.encode();
            bytes[88] = code;
            fix(&mut bytes);
            let fits = |word: &str, is: bool| match word {
                "yes" => is,
                "no" => !is,
                "may" => true,
                other => panic!("unknown word '{other}'"),
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
        Reject::EpochLower(1),
        Reject::EpochUnlinked(1),
        Reject::PastSegment,
        Reject::Chain,
        Reject::PayloadChecksum,
        Reject::Frames,
    ];
    let code: Vec<(&str, &str)> = samples
        .iter()
        .map(|r| (r.name(), NextBatch::of(*r).label()))
        .collect();
    let names: Vec<&str> = code.iter().map(|c| c.0).collect();
    assert_eq!(names, Reject::NAMES, "a variant has no sample here");
    let rows = table("batch-rejects");
    let doc: Vec<(&str, &str)> = rows.iter().map(|r| (&r[0][..], &r[1][..])).collect();
    assert_eq!(doc, code);
    for (name, names) in [
        ("segment-rejects", SegmentReject::NAMES),
        ("control-rejects", ControlReject::NAMES),
        ("live-rejects", LiveReject::NAMES),
        ("meta-rejects", MetaReject::NAMES),
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
    assert_eq!(column("seen"), NextBatch::ALL.map(NextBatch::label));
    assert_eq!(column("decision-words"), Decision::ALL.map(Decision::label));
    assert_eq!(column("cases"), RecoveryCase::ALL.map(RecoveryCase::label));
}

#[test]
fn decision_table() {
    let rows = table("decisions");
    let mut cases = BTreeSet::new();
    for seen in NextBatch::ALL {
        for (stamped, resumed) in [(false, false), (false, true), (true, false), (true, true)] {
            let matches = |word: &str, is: bool| match word {
                "any" => true,
                "yes" => is,
                "no" => !is,
                other => panic!("unknown word '{other}'"),
            };
            let hits: Vec<_> = rows
                .iter()
                .filter(|r| {
                    (r[0] == "any" || r[0] == seen.label())
                        && matches(&r[1], stamped)
                        && matches(&r[2], resumed)
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
    let labels: BTreeSet<_> = NextBatch::ALL.map(NextBatch::label).into();
    for row in rows.iter().filter(|r| r[0] != "any") {
        assert!(labels.contains(&row[0][..]), "no such thing: {}", row[0]);
    }
    assert_eq!(
        cases,
        RecoveryCase::ALL.into(),
        "a case that nothing leads to"
    );
}

/// Tests that every combination of two slots has one row, and that the code agrees with it.
#[test]
fn meta_slots() {
    let rows = table("meta-slots");
    let meta = |sequence| Meta {
        sequence,
        ..crate::support::meta()
    };
    let samples = [
        ("newer", Ok(meta(8))),
        ("valid", Ok(meta(7))),
        ("older", Ok(meta(6))),
        ("absent", Err(MetaReject::Absent)),
        ("broken", Err(MetaReject::Checksum)),
        ("unreadable", Err(MetaReject::Unreadable)),
    ];
    let fits = |word: &str, name: &str| match word {
        "any" => true,
        "unusable" => ["absent", "broken", "unreadable"].contains(&name),
        words => words.split(" or ").any(|word| word == name),
    };
    for (first, a) in &samples {
        for (second, b) in &samples {
            for had in ["yes", "no"] {
                // "Newer" and "older" are relative to a valid slot.
                let relative = |n: &str| n == "newer" || n == "older";
                if relative(first) || (relative(second) && *first != "valid") {
                    continue;
                }
                let what = format!("{first}, {second}, had {had}");
                let hits: Vec<_> = rows
                    .iter()
                    .filter(|r| {
                        fits(&r[0], first) && fits(&r[1], second) && (r[2] == "any" || r[2] == had)
                    })
                    .collect();
                assert_eq!(hits.len(), 1, "rows for {what}");
                let result = match newest_meta([a.clone(), b.clone()], had == "yes") {
                    MetaSlots::Never => "never set",
                    MetaSlots::Is(m, 0, _) if Ok(&m) == a.as_ref() => "the first",
                    MetaSlots::Is(m, 1, _) if Ok(&m) == b.as_ref() => "the second",
                    MetaSlots::Is(..) => panic!("{what}"),
                    MetaSlots::Lost(_) => "damaged",
                };
                assert_eq!(hits[0][3], result, "{what}");
            }
        }
    }
}

/// The tables of fields check the checksums' coverage; this table must name the same fields.
#[test]
fn checksums() {
    for row in table("checksums") {
        let fields = table(&row[2]);
        let field = fields.iter().find(|f| f[2] == row[3]).expect("field");
        assert_eq!(field[0], row[4], "where the checksum of {} lies", row[0]);
        assert_eq!(field[1], "4");
    }
}

/// Tests that every table is checked by some test. Otherwise a table could state anything.
#[test]
fn every_table_is_walked() {
    // `files` names files that `core` makes, and `core` orders its counters. Tests there check both.
    let mut walked = vec![
        "constants",
        "files",
        "checksums",
        "segment-header",
        "batch-header",
        "kinds",
        "frame-header",
        "frame-flags",
        "control-slot",
        "live",
        "live-counters",
        "live-summaries",
        "meta-slot",
        "meta-slots",
        "batch-rejects",
        "segment-rejects",
        "control-rejects",
        "meta-rejects",
        "live-rejects",
        "seen",
        "decisions",
        "decision-words",
        "cases",
    ];
    let mut found = tables();
    walked.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, walked);
    assert_eq!(
        found.len(),
        crate::support::table_count(),
        "a table without its marker"
    );
}

#[test]
fn the_reference_checksum_is_crc32c() {
    // RFC 3720, B.4.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    // The payload's checksum is the same one.
    let batch = crate::support::one_record(b"payload");
    let h = BatchHeader::decode(&batch).unwrap();
    let end = BATCH_HEADER_LEN + h.payload_len as usize;
    assert_eq!(h.payload_crc, crc32c(&batch[BATCH_HEADER_LEN..end]));
    assert_eq!(h.log_id, LOG);
}
