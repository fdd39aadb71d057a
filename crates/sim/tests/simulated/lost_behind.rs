//! A segment is lost that an opening does not come to, since the log seems to end before it.

use crate::common::batches;
use logforce_core::{
    BatchInfo, BatchKind, ErrorKind, Inspector, Log, OnDamage, OpenMode, Options, Record,
    RecoveryCase, RecoveryReport,
};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

/// Without stamps other than those of batches with records.
fn options() -> Options {
    small().idle_stamp(Duration::from_secs(3600))
}

fn commit_all(disk: &SimDisk, closed: bool) {
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, options()).expect("opens");
        for n in 0..9u8 {
            log.commit(&[n; 5_000]).expect("nothing fails");
        }
        match closed {
            true => log.close().expect("nothing fails"),
            false => disk.cut(),
        }
    });
    if !closed {
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
    }
}

/// Opens, reads, and loses power.
fn truncate(disk: &SimDisk, seed: u64) -> (RecoveryReport, Vec<Record>) {
    let seen = SimRuntime::run(seed, |rt| {
        let options = options().on_damage(OnDamage::Truncate);
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options);
        let log = log.expect("truncates");
        let seen = (log.recovered().clone(), read(&log, log.front_lsn()));
        disk.cut();
        seen
    });
    disk.reboot(seed);
    seen
}

/// Whether a strict opening refuses, or the log says what was given up.
fn is_reported(disk: &SimDisk, seed: u64) -> bool {
    SimRuntime::run(seed, |rt| {
        match Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options()) {
            Ok(log) => !log.given_up().expect("nothing fails").is_empty(),
            Err(e) => e.kind() == ErrorKind::Damaged,
        }
    })
}

/// The last batch of a segment is rotten, and the segment behind it is lost, with the stamp that would
/// say that this batch had been durable: the loss is told, and what was cut with it does not come back.
#[test]
fn a_segment_lost_behind_a_rotten_batch_is_reported() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    commit_all(&disk, false);
    let (anchor, all, _) = batches(&disk, 2);
    let next = all.windows(2).rfind(|w| w[0].file != w[1].file);
    let [rotten, next] = next.expect("more than a segment") else {
        unreachable!("windows of two");
    };
    assert!(rotten.lsn >= anchor, "nothing but a stamp tells");
    assert!(disk.flip_bit(PATH, &rotten.file, rotten.offset + 200, 0));
    assert!(disk.remove_file(PATH, &next.file));
    assert!(is_reported(&disk, 3));

    let damaged = disk.snapshot();
    // Cut at each operation of the opening, until it returns.
    for op in 0.. {
        disk.restore(&damaged);
        disk.cut_at(op);
        let returned = SimRuntime::run(4, |rt| {
            let options = options().on_damage(OnDamage::Truncate);
            let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options);
            disk.cut();
            log.is_ok()
        });
        disk.reboot(op);
        assert!(is_reported(&disk, op), "cut at {op}, and nothing tells");
        if returned {
            assert!(op > 20, "hardly cut");
            break;
        }
    }

    disk.restore(&damaged);
    let (recovered, shown) = truncate(&disk, 4);
    assert_eq!(recovered.end, rotten.lsn);
    let lost = recovered.lost.expect("reported");
    let file = Some(next.file.clone());
    assert_eq!((lost.case, lost.file), (RecoveryCase::SegmentLost, file));

    disk.lift_faults();
    let (_, all, _) = batches(&disk, 5);
    let gives_up = |b: &&BatchInfo| b.kind == BatchKind::Epoch && b.void_from < b.lsn;
    let went_on = all.iter().find(gives_up).expect("where it went on");
    assert!(went_on.void_from <= rotten.lsn);
    assert!(disk.remove_file(PATH, &went_on.file));
    let (recovered, again) = truncate(&disk, 6);
    assert!(recovered.lost.is_some());
    assert_eq!(again, shown, "what was given up is back");
}

/// A log that was closed in order ends where it says: nothing was in a segment behind that.
#[test]
fn a_segment_lost_behind_a_close_cost_nothing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    commit_all(&disk, true);
    let (_, all, _) = batches(&disk, 2);
    let used = all.last().expect("there are records").file.clone();
    let names = disk.stable_names(PATH);
    let unused = names.iter().filter(|n| n.ends_with(".seg")).max();
    let unused = unused.filter(|n| **n > used).expect("one prepared ahead");
    assert!(disk.remove_file(PATH, unused));
    assert!(is_reported(&disk, 3));
    let (recovered, shown) = truncate(&disk, 4);
    assert_eq!(recovered.lost, None);
    assert_eq!(shown.len(), 9);
}

/// Nor was anything given up with one whose header is damaged: its file is in the way, and stays
/// without a word.
#[test]
fn an_unused_segment_with_a_damaged_header_is_nothing_given_up() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    commit_all(&disk, true);
    let (_, all, _) = batches(&disk, 2);
    let used = all.last().expect("there are records").file.clone();
    let names = disk.stable_names(PATH);
    let unused = names.iter().filter(|n| n.ends_with(".seg")).max();
    let unused = unused.filter(|n| **n > used).expect("one prepared ahead");
    let whole = disk.snapshot();
    for passes in [false, true] {
        disk.restore(&whole);
        match passes {
            true => assert!(disk.make_unreadable(PATH, unused, 0)),
            false => assert!(disk.flip_bit(PATH, unused, 20, 0)),
        }
        let (recovered, shown) = truncate(&disk, 3);
        assert_eq!(recovered.lost, None);
        assert_eq!(shown.len(), 9);
        disk.lift_faults();
        let aside = format!("{unused}.damaged");
        assert!(disk.stable_names(PATH).contains(&aside), "it is evidence");
        SimRuntime::run(4, |rt| {
            let inspector = Inspector::open(&*disk.system(rt), PATH).expect("it can be looked at");
            assert_eq!(inspector.given_up().expect("listed"), []);
            let walked = inspector.walk(&mut |_| true).expect("it can be walked");
            assert_eq!((walked.records, walked.damages), (9, 0));
        });
        assert!(!is_reported(&disk, 5), "{passes}");
    }
}
