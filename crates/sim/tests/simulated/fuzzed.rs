//! Bugs that fuzzing found, one test for each.

use crate::common::{forge_control, mended};
use logforce_core::{Damage, Error, Inspector, Log, OpenMode, Record, RecoveryCase, Visit};
use logforce_device::System;
use logforce_format::{
    CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, Lsn, SEGMENT_HEADER_LEN, SegmentHeader,
};
use logforce_sim::mending::OnDamage;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

/// Creates a log with several segments. Returns its records and the names of the segments.
fn several_segments(disk: &SimDisk) -> (Vec<Record>, Vec<String>) {
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::CreateNew, small()).expect("open");
        for n in 0..8_u8 {
            log.commit(&vec![n; 9_000]).expect("commit");
        }
        let records = read(&log, log.front_lsn());
        log.close().expect("close");
        let inspector = Inspector::open(&*system, PATH).expect("inspect");
        let segments = inspector.summary().segments;
        (records, segments.into_iter().map(|s| s.name).collect())
    })
}

fn open(system: &dyn System, on_damage: OnDamage) -> Result<Log, Error> {
    on_damage.mend(system)?;
    Log::open(system, PATH, OpenMode::OpenExisting, small())
}

/// Two segments have each other's names, and one of them is damaged. A new segment replaced the lost one
/// under its name, and the whole one that had this name was set aside. The next opening missed it, and
/// records committed in between were lost.
#[test]
fn a_whole_segment_with_the_name_of_a_lost_one_is_kept() {
    for (lost, whole) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let (records, names) = several_segments(&disk);
        let bytes = |n: usize| disk.file_bytes(PATH, &names[n]).expect("a segment");
        let mut of_lost = bytes(lost);
        of_lost[0] ^= 1;
        let of_whole = bytes(whole);
        disk.put_file(PATH, &names[whole], &of_lost);
        disk.put_file(PATH, &names[lost], &of_whole);
        let (before, new) = SimRuntime::run(2, |rt| {
            let system = disk.system(rt);
            assert!(open(&*system, OnDamage::Refuse).is_err());
            let log = open(&*system, OnDamage::Repair).expect("truncated");
            let before = read(&log, log.front_lsn());
            let new = log.commit(b"new").expect("commit");
            log.close().expect("close");
            (before, new)
        });
        let shown = before.len();
        assert_eq!(before[..], records[..shown], "{lost} {whole}");
        SimRuntime::run(3, |rt| {
            let log = open(&*disk.system(rt), OnDamage::Refuse).expect("whole again");
            let after = read(&log, log.front_lsn());
            assert_eq!(after[..shown], before, "{lost} {whole}");
            assert_eq!(after.len(), shown + 1);
            assert_eq!(after[shown].start, new.start);
        });
    }
}

/// The tail is read again past the cache, in pieces with an unreadable sector. The loss was not reported,
/// whether it was known already or found only then, and the LSNs after it were used again.
#[test]
fn a_loss_found_while_the_tail_is_read_again_is_reported() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let places = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::CreateNew, small()).expect("open");
        for n in 0..6_u8 {
            log.commit(&[n; 100]).expect("commit");
        }
        let mut places = Vec::new();
        let inspector = Inspector::open(&*system, PATH).expect("inspect");
        let walked = inspector.walk(&mut |v| {
            if let Visit::Batch(b) = v {
                places.push((b.file.clone(), b.offset, b.lsn));
            }
            true
        });
        walked.expect("walked");
        disk.cut();
        places
    });
    disk.crash(logforce_testkit::Failure::Process, None, 1);
    let whole = disk.snapshot();
    let mut lost = 0;
    for (file, offset, lsn) in &places {
        disk.restore(&whole);
        assert!(disk.make_unreadable(PATH, file, *offset));
        SimRuntime::run(2, |rt| {
            let Ok((log, report)) = mended(&disk, rt, &small(), OnDamage::Repair) else {
                return;
            };
            let recovered = log.recovered().clone();
            if let Some(cut) = report.and_then(|report| report.cut) {
                let damage = cut.damage;
                lost += 1;
                assert!(damage.lsn <= *lsn, "{damage}");
                assert!(cut.from <= *lsn);
                let at = log.commit(b"new").expect("commit");
                assert!(at.start > places[places.len() - 1].2, "used again: {at:?}");
            } else {
                assert_ne!(
                    recovered.case,
                    RecoveryCase::ReadError,
                    "not reported at {lsn}"
                );
                assert_ne!(
                    recovered.case,
                    RecoveryCase::Damaged,
                    "not reported at {lsn}"
                );
            }
        });
    }
    assert!(lost >= 3, "{lost}");
}

/// Opens, commits, closes and opens again. Checks that all acknowledged records exist. Returns the error if
/// the first opening was refused.
fn refused_or_kept(disk: &SimDisk, on_damage: OnDamage) -> Option<Error> {
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let log = match open(&*system, on_damage) {
            Ok(log) => log,
            Err(e) => return Some(e),
        };
        // Damage below the anchor is reported by reading.
        let shown = |log: &Log| -> Vec<Record> {
            let reader = log.read_from(log.front_lsn()).expect("the front");
            reader.map_while(Result::ok).collect()
        };
        let before = shown(&log);
        let new = log.commit(b"new").expect("commit");
        log.close().expect("close");
        let log = open(&*system, OnDamage::Refuse).expect("an accepted log opens again");
        assert_eq!(shown(&log)[..before.len()], before);
        let found = log.read_at(new.start).expect("acknowledged");
        assert_eq!(found.data, b"new");
        None
    })
}

fn salvaged(disk: &SimDisk) -> (Vec<Record>, Inspector) {
    SimRuntime::run(3, |rt| {
        let inspector = Inspector::salvage(&*disk.system(rt), PATH).expect("salvage");
        let mut found = Vec::new();
        let walked = inspector.walk(&mut |v| {
            if let Visit::Record { record, .. } = v {
                found.push(record.clone());
            }
            true
        });
        walked.expect("walked");
        (found, inspector)
    })
}

fn damage_of(error: Option<Error>, what: &str) -> Damage {
    match error {
        Some(Error::Damaged(damage)) => *damage,
        other => panic!("{what}: {other:?}"),
    }
}

/// A segment header with a correct checksum has another start or another write unit. The log accepted a
/// record, and the next opening failed, because the record began in the middle of a device's block.
#[test]
fn a_segment_header_that_contradicts_its_neighbours_is_refused() {
    let whole = SimDisk::new(SimOptions::default(), 1);
    let (records, names) = several_segments(&whole);
    let snapshot = whole.snapshot();
    type Change = fn(&mut SegmentHeader);
    let changes: [(&str, Change); 8] = [
        ("up a sector", |h| h.start.0 += 512),
        ("down a sector", |h| h.start.0 -= 512),
        ("up a word", |h| h.start.0 += 8),
        ("up a page", |h| h.start.0 += 4096),
        ("down a page", |h| h.start.0 -= 4096),
        ("shorter", |h| h.len -= 4096),
        ("another unit", |h| h.write_unit = 8192),
        ("over the one before", |h| h.start.0 -= h.len),
    ];
    let (mut refused, mut kept) = (0, 0);
    for (segment, name) in names.iter().enumerate() {
        for (what, change) in changes {
            let disk = SimDisk::new(SimOptions::default(), 1);
            disk.restore(&snapshot);
            let mut bytes = disk.file_bytes(PATH, name).expect("a segment");
            let mut header = SegmentHeader::decode(&bytes).expect("a header");
            if header.start == Lsn::ORIGIN && (what.contains("down") || what.contains("over")) {
                continue;
            }
            change(&mut header);
            bytes[..SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
            disk.put_file(PATH, name, &bytes);
            let before = disk.snapshot();
            let what = format!("segment {segment} {what}");
            match refused_or_kept(&disk, OnDamage::Refuse) {
                None => kept += 1,
                refusal => {
                    let damage = damage_of(refusal, &what);
                    assert!(damage.file.is_some(), "{what}: {damage}");
                    refused += 1;
                }
            }
            disk.restore(&before);
            if let Some(e) = refused_or_kept(&disk, OnDamage::Repair) {
                damage_of(Some(e), &what);
            }
            disk.restore(&before);
            for e in salvaged(&disk).0 {
                assert!(records.contains(&e), "{what}: {} never appended", e.start);
            }
        }
    }
    // Another write unit is noticed only by an opening that writes or scans there.
    assert!(refused >= 20 && kept <= names.len(), "{refused} {kept}");
}

/// Two files hold the same part of the log. Openings refuse them, and salvage uses the one whose name fits
/// its position.
#[test]
fn segments_that_overlap_are_refused_and_salvage_takes_one() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (records, names) = several_segments(&disk);
    let mut bytes = disk.file_bytes(PATH, &names[1]).expect("a segment");
    let mut header = SegmentHeader::decode(&bytes).expect("a header");
    header.start.0 += 4096;
    bytes[..SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
    let other = "00000000000000ff.seg";
    disk.put_file(PATH, other, &bytes);
    for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
        let damage = damage_of(refused_or_kept(&disk, on_damage), "overlapping");
        assert_eq!(damage.file.as_deref(), Some(other));
        assert!(damage.found.contains(" of the log, but "), "{damage}");
    }
    let (found, inspector) = salvaged(&disk);
    assert_eq!(found, records);
    let strays = inspector.summary().strays;
    assert!(strays.iter().any(|(name, _)| name == other), "{strays:?}");
}

/// The control file says that the segments begin or end in the middle of a segment, so that the next prepared
/// segment would overlap it. Or its counters are at their maximum, so that the next opening, or the next
/// slot, would not get a unique number.
#[test]
fn a_control_file_that_cannot_be_gone_on_from_is_refused() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (records, _) = several_segments(&disk);
    let snapshot = disk.snapshot();
    type Change = fn(&mut Control);
    let changes: [(&str, Change); 6] = [
        ("end in a segment", |c| c.prepared_end.0 -= 4096),
        ("end in a sector", |c| c.prepared_end.0 -= 8),
        ("begin in a segment", |c| {
            c.first_segment.0 += 4096;
            c.front = c.first_segment;
        }),
        ("opened to the end", |c| c.epoch.counter = u64::MAX),
        ("changed to the end", |c| c.sequence = u64::MAX),
        ("changed nearly to the end", |c| c.sequence = u64::MAX - 3),
    ];
    for (what, change) in changes {
        disk.restore(&snapshot);
        forge_control(&disk, change);
        for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
            let damage = damage_of(refused_or_kept(&disk, on_damage), what);
            assert!(damage.file.is_some(), "{what}: {damage}");
        }
        let found = salvaged(&disk).0;
        assert!(found.len() + 1 >= records.len(), "{what}: {}", found.len());
    }
}

/// Without a control slot it is unknown if there was metadata. Salvage reported that it was never set.
#[test]
fn salvage_does_not_say_that_metadata_was_never_set() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    several_segments(&disk);
    let without = disk.snapshot();
    SimRuntime::run(2, |rt| {
        let log = open(&*disk.system(rt), OnDamage::Refuse).expect("open");
        log.set_meta(b"a vote").expect("set");
        log.close().expect("close");
    });
    let blank = |disk: &SimDisk| {
        let mut bytes = disk.file_bytes(PATH, "control").expect("a control file");
        for at in CONTROL_SLOT_OFFSETS {
            bytes[at as usize..][..CONTROL_SLOT_LEN].fill(0);
        }
        disk.put_file(PATH, "control", &bytes);
    };
    // The slots of the metadata are whole, so it exists.
    blank(&disk);
    let (_, inspector) = salvaged(&disk);
    assert_eq!(inspector.meta().expect("whole"), Some(b"a vote".to_vec()));
    disk.restore(&without);
    let (_, inspector) = salvaged(&disk);
    assert_eq!(inspector.meta().expect("known"), None);
    assert!(inspector.summary().meta_whole);
    for gone in [true, false] {
        disk.restore(&without);
        match gone {
            true => assert!(disk.remove_file(PATH, "control")),
            false => blank(&disk),
        }
        let (_, inspector) = salvaged(&disk);
        let damage = damage_of(inspector.meta().err(), "unknown");
        assert!(damage.found.contains("it is unknown whether"), "{damage}");
        let summary = inspector.summary();
        assert_eq!((summary.meta_len, summary.meta_whole), (None, false));
    }
}

/// The control file names another batch at the anchor than the one that ends there. An opening begins there
/// and refuses a batch that does not follow. `verify` reported a healthy log.
#[test]
fn what_lies_below_the_anchor_is_held_against_it() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    several_segments(&disk);
    let snapshot = disk.snapshot();
    type Change = fn(&mut Control);
    let changes: [(&str, Change); 4] = [
        ("another checksum", |c| c.anchor.prev_crc ^= 1),
        ("another opening", |c| c.anchor.epoch.nonce ^= 1),
        ("another void range", |c| c.anchor.last_void.0 += 4096),
        ("in the middle of a batch", |c| {
            c.anchor.lsn.0 -= 8;
            c.clean = false;
        }),
    ];
    for (what, change) in changes {
        disk.restore(&snapshot);
        forge_control(&disk, change);
        SimRuntime::run(2, |rt| {
            let inspector = Inspector::open(&*disk.system(rt), PATH).expect("inspect");
            let anchor = inspector.summary().anchor;
            let mut damages = Vec::new();
            let walked = inspector.walk(&mut |v| {
                if let Visit::Damage(d) = v {
                    damages.push(d.clone());
                }
                true
            });
            walked.expect("walked");
            assert_eq!(damages[0].lsn, anchor, "{what}: {damages:?}");
            assert_eq!(damages[0].case, RecoveryCase::WrittenWrong, "{what}");
        });
    }
}

/// A forged header gives the first segment of a log without records a larger write unit. Its first batch
/// would then begin at the LSN where, by the control file, a batch ends.
#[test]
fn a_write_unit_that_the_control_file_contradicts_is_refused() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::CreateNew, small()).expect("open");
        log.close().expect("close");
    });
    let name = "0000000000000000.seg";
    let mut bytes = disk.file_bytes(PATH, name).expect("a segment");
    let mut header = SegmentHeader::decode(&bytes[..SEGMENT_HEADER_LEN]).expect("a header");
    header.write_unit = 8192;
    bytes[..SEGMENT_HEADER_LEN].copy_from_slice(&header.encode());
    disk.put_file(PATH, name, &bytes);
    for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
        let damage = damage_of(refused_or_kept(&disk, on_damage), "a write unit");
        assert_eq!(damage.file.as_deref(), Some(name), "{damage}");
        assert!(
            damage.found.contains("no batch ends at or below LSN 8192"),
            "{damage}"
        );
    }
}
