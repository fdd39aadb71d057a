//! What was given up at damage is kept, and shown on request, wherever it lies.

use crate::common::batches as all_batches;
use logforce_core::{
    BatchInfo, Error, Inspector, Log, Lsn, OnDamage, OpenMode, Record, RecoveryCase, Visit,
};
use logforce_device::System;
use logforce_sim::model;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};

fn batches(disk: &SimDisk) -> (Lsn, Vec<BatchInfo>) {
    let (anchor, batches, damages) = all_batches(disk, 1);
    assert_eq!(damages, 0);
    (anchor, batches)
}

fn open(system: &dyn System) -> Log {
    let options = small().on_damage(OnDamage::Truncate);
    Log::open(system, PATH, OpenMode::OpenOrCreate, options).expect("it opens")
}

/// Works, and loses power at once.
fn live(disk: &SimDisk, work: impl FnOnce(&Log)) {
    SimRuntime::run(1, |rt| {
        let log = open(&*disk.system(rt));
        work(&log);
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
}

fn commit_some(log: &Log, n: u8) -> Vec<Record> {
    for n in n..n + 4 {
        log.commit(&[n; 3_000]).expect("nothing fails");
    }
    read(log, log.front_lsn())
}

/// The first batch with records that an opening comes to is rotten.
fn rot(disk: &SimDisk) -> BatchInfo {
    let (anchor, all) = batches(disk);
    let b = all.iter().find(|b| b.lsn >= anchor && b.frames > 0);
    let b = b.expect("something lies above the anchor").clone();
    assert!(disk.flip_bit(PATH, &b.file, b.offset + 9, 0));
    b
}

fn given_up(disk: &SimDisk) -> (usize, Vec<Record>) {
    SimRuntime::run(1, |rt| model::given_up(&*disk.system(rt)))
}

/// A log is truncated at damage, goes on, and is truncated in the segment where it went on: that one
/// ends the first range and holds the beginning of the second. The front passes it.
#[test]
fn a_segment_with_parts_of_two_ranges() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    live(&disk, |log| drop(commit_some(log, 0)));
    rot(&disk);
    let mut second = Vec::new();
    live(&disk, |log| {
        assert!(log.recovered().lost.is_some());
        second = commit_some(log, 10);
    });
    let rotten = rot(&disk);
    live(&disk, |log| assert!(log.recovered().lost.is_some()));
    let (ranges, before) = given_up(&disk);
    assert_eq!(ranges, 2);
    let of_second = |e: &&Record| e.start > rotten.lsn && second.contains(e);
    assert!(before.iter().any(|e| of_second(&e)), "{before:?}");

    live(&disk, |log| {
        let new = log.commit(b"goes on").expect("nothing fails");
        log.truncate_front(new.start).expect("nothing fails");
    });
    let is_kept = format!("{}.cut", rotten.file);
    assert!(disk.stable_names(PATH).contains(&is_kept));
    assert_eq!(given_up(&disk), (2, before));
}

/// The header of a segment cannot be read just once, and the segment is set aside: its records are
/// there also when the header can be read again.
#[test]
fn a_segment_that_was_set_aside_and_can_be_read_again() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let mut all = Vec::new();
    live(&disk, |log| {
        commit_some(log, 0);
        commit_some(log, 10);
        all = commit_some(log, 20);
    });
    let (_, written) = batches(&disk);
    let middle = written.iter().find(|b| b.file != written[0].file);
    let middle = middle.expect("more than a segment");
    assert!(disk.make_unreadable(PATH, &middle.file, 0));
    let mut left = Vec::new();
    live(&disk, |log| left = read(log, log.front_lsn()));
    let aside = format!("{}.damaged", middle.file);
    assert!(disk.stable_names(PATH).contains(&aside));
    for lifted in [false, true] {
        if lifted {
            disk.lift_faults();
        }
        let (ranges, found) = given_up(&disk);
        assert_eq!(ranges, 1);
        assert_eq!([&left[..], &found].concat(), all, "{lifted}");
    }
}

/// What an opening had given up is given up again, with what had followed: because neither the batch
/// by which it had gone on can be read, nor the one before. Each record is shown once.
#[test]
fn a_range_within_another() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let mut first = Vec::new();
    live(&disk, |log| first = commit_some(log, 0));
    rot(&disk);
    live(&disk, |log| drop(commit_some(log, 10)));
    let (_, before) = given_up(&disk);
    assert!(!before.is_empty() && before.iter().all(|e| first.contains(e)));
    let (_, all) = batches(&disk);
    let went_on = all.iter().position(|b| b.void_from < b.lsn);
    let went_on = went_on.expect("where it went on");
    for b in &all[went_on - 1..=went_on] {
        assert!(disk.make_unreadable(PATH, &b.file, b.offset));
    }
    live(&disk, |log| assert!(log.recovered().lost.is_some()));

    let (ranges, shown) = given_up(&disk);
    assert_eq!(ranges, 2);
    assert_eq!(shown[..before.len()], before);
    assert!(shown.len() > before.len(), "what followed is kept as well");
    assert!(shown.is_sorted_by(|a, b| a.start < b.start), "{shown:?}");
}

/// The damage passes at which a log was truncated, and now the batch by which it had gone on is not
/// what it was. Its marker says what was given up: that does not come back, and what followed is not
/// lost for it.
#[test]
fn a_range_that_only_its_marker_tells() {
    for how in ["rotten", "unreadable"] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let mut first = Vec::new();
        live(&disk, |log| first = commit_some(log, 0));
        let rotten = rot(&disk);
        let mut left = Vec::new();
        live(&disk, |log| left = commit_some(log, 10));
        let gone: Vec<&Record> = first.iter().filter(|e| !left.contains(e)).collect();
        assert!(!gone.is_empty());
        let (anchor, all) = batches(&disk);
        let went_on = all.iter().find(|b| b.void_from < b.lsn);
        let went_on = went_on.expect("where it went on");
        assert!(anchor > went_on.lsn, "no opening comes to it");
        assert!(disk.flip_bit(PATH, &rotten.file, rotten.offset + 9, 0));
        match how {
            "rotten" => assert!(disk.flip_bit(PATH, &went_on.file, went_on.offset + 9, 0)),
            _ => assert!(disk.make_unreadable(PATH, &went_on.file, went_on.offset)),
        }

        SimRuntime::run(1, |rt| {
            let inspector = Inspector::salvage(&*disk.system(rt), PATH).expect("it is there");
            let mut saved = Vec::new();
            let walked = inspector.walk(&mut |visit| {
                if let Visit::Record { record, .. } = visit {
                    saved.push(record.clone());
                }
                true
            });
            assert_eq!(walked.expect("it can be walked").damages, 1);
            assert_eq!(saved, left, "{how}");
        });
        live(&disk, |log| {
            assert!(log.recovered().lost.is_none(), "{how}");
            let mut read = Vec::new();
            // Up to the damage, and behind it.
            for from in [log.front_lsn(), anchor] {
                let records = log.read_from(from).expect("it can be read");
                read.extend(records.map_while(Result::ok));
            }
            assert!(
                read.len() > 1 && read.iter().all(|e| left.contains(e)),
                "{how}"
            );
            assert!(!read.iter().any(|e| gone.contains(&e)), "{how}");
        });
    }
}

/// A log is truncated at damage and loses power before anything else is committed. Its marker is
/// gone, as in a log of before there were any, the damage passes, and the batch by which the opening
/// went on cannot be read, or its segment is missing: nothing else says that what lies behind the
/// anchor was given up. The log does not open as if nothing were wrong, and what was given up does
/// not come back by another truncation.
#[test]
fn a_range_that_nothing_tells() {
    for (how, case) in [
        ("missing", RecoveryCase::SegmentLost),
        ("unreadable", RecoveryCase::Damaged),
    ] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        live(&disk, |log| drop(commit_some(log, 0)));
        let rotten = rot(&disk);
        let mut left = Vec::new();
        live(&disk, |log| left = read(log, log.front_lsn()));
        let (anchor, all) = batches(&disk);
        assert_eq!(anchor, rotten.lsn);
        let went_on = all.last().expect("where it went on");
        assert!(went_on.void_from < went_on.lsn);
        for marker in disk.stable_names(PATH) {
            if marker.ends_with(".cut") {
                assert!(disk.remove_file(PATH, &marker));
            }
        }
        disk.lift_faults();
        match how {
            "unreadable" => assert!(disk.make_unreadable(PATH, &went_on.file, went_on.offset)),
            _ => assert!(disk.remove_file(PATH, &went_on.file)),
        }

        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let strict = small().on_damage(OnDamage::Refuse);
            match Log::open(&*system, PATH, OpenMode::OpenExisting, strict) {
                Err(Error::Damaged(d)) => assert_eq!(d.case, case, "{d}"),
                Err(e) => panic!("{how}: {e}"),
                Ok(log) => panic!("{how}: it opens with {:?}", log.recovered()),
            }
        });
        live(&disk, |log| {
            assert!(log.recovered().lost.is_some(), "{how}");
            assert!(read(log, log.front_lsn()) == left, "{how}");
        });
    }
}
