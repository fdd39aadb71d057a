//! What fuzzing found, each as a case of its own.

use logforce_core::{Case, Creation, Entry, Error, Inspector, Log, OnDamage, Visit};
use logforce_device::System;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

/// A log with several segments: its records, its segments' names.
fn several_segments(disk: &SimDisk) -> (Vec<Entry>, Vec<String>) {
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, Creation::CreateNew, small()).expect("open");
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
    let options = small().on_damage(on_damage);
    Log::open(system, PATH, Creation::OpenExisting, options)
}

/// Two segments have each other's names, and one of them is damaged. The place of the lost one was
/// prepared anew under its name, and the whole one that had it was set aside: the next opening
/// missed it, and what was committed in between was gone.
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
            let log = open(&*system, OnDamage::Truncate).expect("truncated");
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

/// The tail is read again past the cache, in pieces that hold a sector which cannot be read. Where
/// the loss was known already, and where it was found only then, it was not reported, and the LSNs
/// behind it were used again.
#[test]
fn a_loss_found_while_the_tail_is_read_again_is_reported() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let places = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, Creation::CreateNew, small()).expect("open");
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
            let Ok(log) = open(&*disk.system(rt), OnDamage::Truncate) else {
                return;
            };
            let recovered = log.recovered().clone();
            if let Some(damage) = &recovered.lost {
                lost += 1;
                assert!(damage.lsn <= *lsn, "{damage}");
                assert!(recovered.end <= *lsn);
                let at = log.commit(b"new").expect("commit");
                assert!(at.start > places[places.len() - 1].2, "used again: {at:?}");
            } else {
                assert_ne!(recovered.case, Case::ReadError, "not reported at {lsn}");
                assert_ne!(recovered.case, Case::Damaged, "not reported at {lsn}");
            }
        });
    }
    assert!(lost >= 3, "{lost}");
}
