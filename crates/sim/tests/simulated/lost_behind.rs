//! Loss of a segment that an opening does not reach, because the log seems to end before it.

use crate::common::{mended, repaired};
use logforce_core::{
    BatchInfo, BatchKind, ErrorKind, Inspector, Log, OpenMode, Options, Record, RecoveryCase,
    RepairReport,
};
use logforce_sim::mending::{OnDamage, batches, cut};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

/// Returns options with which only batches with records carry stamps.
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

/// Repairs, reads, and loses power.
fn mend(disk: &SimDisk, seed: u64) -> (RepairReport, Vec<Record>) {
    let seen = SimRuntime::run(seed, |rt| {
        let (log, report) = repaired(disk, rt, &options());
        let seen = (report, read(&log, log.front_lsn()));
        disk.cut();
        seen
    });
    disk.reboot(seed);
    seen
}

fn is_refused(disk: &SimDisk, seed: u64) -> bool {
    SimRuntime::run(seed, |rt| {
        let opened = mended(disk, rt, &options(), OnDamage::Refuse);
        opened.is_err_and(|e| e.kind() == ErrorKind::Damaged)
    })
}

/// The last batch of a segment is damaged, and the next segment is lost with the stamp that proved this
/// batch. The loss is reported, and records that the repair removed do not come back.
#[test]
fn a_segment_lost_behind_a_rotten_batch_is_reported() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    commit_all(&disk, false);
    let (anchor, all, _) = batches(&disk, 2);
    let next = all.windows(2).rfind(|w| w[0].file != w[1].file);
    let [rotten, next] = next.expect("more than a segment") else {
        unreachable!("windows of two");
    };
    assert!(rotten.lsn >= anchor, "only a stamp proves it");
    assert!(disk.flip_bit(PATH, &rotten.file, rotten.offset + 200, 0));
    assert!(disk.remove_file(PATH, &next.file));
    assert!(is_refused(&disk, 3));

    let damaged = disk.snapshot();
    let place = mend(&disk, 4).0.aside.expect("it is damaged");
    // A power cut at each operation of the repair, until it returns.
    for op in 0.. {
        disk.restore(&damaged);
        disk.cut_at(op);
        let returned = SimRuntime::run(4, |rt| {
            let report = OnDamage::Repair.mend(&*disk.system(rt)).ok().flatten();
            disk.cut();
            report
        });
        disk.reboot(op);
        let tells = is_refused(&disk, op) || disk.names(&place).contains_key("control");
        assert!(tells, "cut at {op}, but nothing reports the loss");
        if returned.is_some() {
            assert!(op > 20, "hardly cut");
            break;
        }
    }

    disk.restore(&damaged);
    let (report, shown) = mend(&disk, 4);
    let done = report.cut.expect("reported");
    assert_eq!(done.from, rotten.lsn);
    let lost = done.damage;
    let file = Some(next.file.clone());
    assert_eq!((lost.case, lost.file), (RecoveryCase::SegmentLost, file));

    disk.lift_faults();
    let (_, all, _) = batches(&disk, 5);
    let gives_up = |b: &&BatchInfo| b.kind == BatchKind::Epoch && b.void_from < b.lsn;
    let went_on = all.iter().find(gives_up).expect("where it went on");
    assert!(went_on.void_from <= rotten.lsn);
    assert!(disk.remove_file(PATH, &went_on.file));
    let (report, again) = mend(&disk, 6);
    assert!(report.cut.is_some());
    assert_eq!(again, shown, "removed records are back");
}

/// A cleanly closed log ends where it says, so no record was in a later segment.
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
    assert!(is_refused(&disk, 3));
    let (report, shown) = mend(&disk, 4);
    assert_eq!(report.cut, None);
    assert_eq!(shown.len(), 9);
}

/// An unused segment with a damaged header held no records either: its file is kept, and no record is
/// removed.
#[test]
fn an_unused_segment_with_a_damaged_header_costs_nothing() {
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
        let (report, shown) = mend(&disk, 3);
        assert_eq!(report.cut, None);
        assert_eq!(shown.len(), 9);
        disk.lift_faults();
        let copies = disk.stable_names(report.aside.as_deref().expect("it was missing"));
        assert!(copies.contains(unused), "it is evidence");
        SimRuntime::run(4, |rt| {
            let system = disk.system(rt);
            assert_eq!(cut(&*system, &report), []);
            let inspector = Inspector::open(&*system, PATH).expect("it can be inspected");
            let walked = inspector.walk(&mut |_| true).expect("it can be walked");
            assert_eq!((walked.records, walked.damages), (9, 0));
        });
        assert!(!is_refused(&disk, 5), "{passes}");
    }
}
