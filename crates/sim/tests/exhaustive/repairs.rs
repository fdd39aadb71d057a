//! Power cuts at each operation of a repair, and later loss of the batch by which the repaired log went on:
//! log and copies together have every record, and no removed record comes back.

use logforce_core::{Error, Log, OpenMode, Record, RecoveryCase, RepairOptions, repair};
use logforce_format::CONTROL_FILE_LEN;
use logforce_sim::mending::{OnDamage, batches, commit_some, live, made, repaired, rot, salvaged};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimRuntime, Survival};
use std::path::Path;

/// The damage passes, and the batch by which the log went on is changed, or gone with its segment; or the
/// power was cut before another commit. The log refuses, and removed records do not come back by another
/// repair.
#[test]
fn what_was_cut_stays_cut() {
    for (how, goes_on, case) in [
        ("rotten", true, None),
        ("unreadable", true, None),
        ("missing", true, Some(RecoveryCase::SegmentLost)),
        ("unreadable", false, Some(RecoveryCase::Damaged)),
        ("missing", false, Some(RecoveryCase::SegmentLost)),
    ] {
        let what = format!("{how}, {goes_on}");
        let (disk, first) = made(4);
        let rotten = rot(&disk);
        let mut left = Vec::new();
        live(&disk, Survival::Lost, |log| {
            left = match goes_on {
                true => commit_some(log, 10),
                false => read(log, log.front_lsn()),
            }
        });
        let gone: Vec<&Record> = first.iter().filter(|e| !left.contains(e)).collect();
        assert!(!gone.is_empty());
        let (_, all, _) = batches(&disk, 1);
        let went_on = all.iter().find(|b| b.void_from < b.lsn);
        let went_on = went_on.expect("where it went on");
        assert!(went_on.void_from <= rotten.lsn);
        disk.lift_faults();
        match how {
            "rotten" => assert!(disk.flip_bit(PATH, &went_on.file, went_on.offset + 9, 0)),
            "unreadable" => assert!(disk.make_unreadable(PATH, &went_on.file, went_on.offset)),
            _ => assert!(disk.remove_file(PATH, &went_on.file)),
        }
        let shown = |log: &Log| -> Vec<Record> {
            let mut shown = Vec::new();
            // One range before the damage, and one after it.
            for from in [log.front_lsn(), went_on.lsn.plus(4096)] {
                let records = log.read_from(from);
                shown.extend(records.into_iter().flatten().map_while(Result::ok));
            }
            shown
        };
        let image = disk.snapshot();
        for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
            disk.restore(&image);
            SimRuntime::run(1, |rt| match on_damage.open(&*disk.system(rt), &small()) {
                Err(Error::Damaged(d)) => {
                    assert_eq!(on_damage, OnDamage::Refuse, "{what}: {d}");
                    assert!(case.is_none_or(|case| case == d.case), "{what}: {d}");
                }
                Err(e) => panic!("{what}: {e}"),
                Ok((log, report)) => {
                    let opens = case.is_none() || report.is_some();
                    assert!(opens, "{what}: it opens with {:?}", log.recovered());
                    let back = shown(&log).into_iter().find(|e| gone.contains(&e));
                    assert_eq!(back, None, "{what}, {on_damage:?}");
                }
            });
            disk.crash(Failure::Power, Some(Survival::Kept), 1);
        }
    }
}

/// The part of a log that is damaged.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Batch,
    Segment,
    /// The segment with the last records; no later bytes say that it held any.
    LastSegment,
}

/// After a power cut at each operation of a repair, log and copies together have every record, whatever the
/// device has kept of unforced data, and the next repair ends where the first would have.
#[test]
fn a_power_cut_in_a_repair_loses_nothing() {
    let log = Path::new(PATH);
    for (harm, survival) in [
        (Harm::Batch, Survival::Lost),
        (Harm::Segment, Survival::Lost),
        (Harm::LastSegment, Survival::Lost),
        (Harm::Batch, Survival::Sectors),
        (Harm::Segment, Survival::Kept),
        (Harm::LastSegment, Survival::Kept),
    ] {
        let (disk, all) = made(12);
        let (_, written, _) = batches(&disk, 1);
        let mut files: Vec<&String> = written.iter().map(|b| &b.file).collect();
        files.dedup();
        match harm {
            Harm::Batch => drop(rot(&disk)),
            Harm::Segment => assert!(disk.make_unreadable(PATH, files[1], 0)),
            Harm::LastSegment => assert!(disk.remove_file(PATH, files[files.len() - 1])),
        }
        let used_to = all.last().expect("there are records").end;
        let damaged = disk.snapshot();
        let before = SimRuntime::run(1, |rt| salvaged(&*disk.system(rt), log));
        let (left, place) = SimRuntime::run(1, |rt| {
            let (log, report) = repaired(&*disk.system(rt), &small());
            (
                read(&log, log.front_lsn()),
                report.aside.expect("it was damaged"),
            )
        });
        for op in 0.. {
            disk.restore(&damaged);
            disk.reboot(op);
            disk.cut_at(disk.ops() + op);
            let returned = SimRuntime::run(op, |rt| {
                let repaired = repair(&*disk.system(rt), log, &RepairOptions::new());
                let has_returned = repaired.is_ok();
                disk.cut();
                has_returned
            });
            disk.crash(Failure::Power, Some(survival), op);
            let what = format!("{harm:?}, {survival:?}, cut at {op}");
            SimRuntime::run(op, |rt| {
                let system = disk.system(rt);
                let mut there = salvaged(&*system, log);
                if disk.names(&place).contains_key("control") {
                    there.extend(salvaged(&*system, &place));
                }
                let lost = before.iter().find(|e| !there.contains(e));
                assert_eq!(lost, None, "{what}: neither in the log nor in the copies");
                let image = disk.snapshot();
                if let Ok((log, _)) = OnDamage::Refuse.open(&*system, &small()) {
                    // The repair was complete.
                    let tail = log.tail_lsn();
                    assert!(tail > used_to, "{what}: LSNs from {tail} on are used again");
                    drop(log);
                }
                disk.restore(&image);
                let (log, _) = repaired(&*system, &small());
                assert_eq!(read(&log, log.front_lsn()), left, "{what}");
            });
            if returned {
                assert!(op > 20, "hardly cut");
                break;
            }
        }
    }
}

/// A repair needs the space of one segment, however many are lost.
#[test]
fn lost_segments_take_no_space_again() {
    let (disk, _) = made(60);
    disk.change(|o| o.capacity = Some(1 << 30));
    let (_, written, _) = batches(&disk, 1);
    let mut files: Vec<&String> = written.iter().map(|b| &b.file).collect();
    files.dedup();
    let lost = &files[1..files.len() - 1];
    assert!(lost.len() > 6, "{files:?}");
    for file in lost {
        assert!(disk.remove_file(PATH, file));
    }
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let dir = system.directory(Path::new(PATH)).expect("it is there");
        let before = dir.free_space().expect("nothing fails");
        let report = repair(&*system, Path::new(PATH), &RepairOptions::new());
        let report = report.expect("all that is lost can be replaced");
        let taken = before - dir.free_space().expect("nothing fails");
        // The copies have a control file as well.
        let of_segments = taken - report.bytes - CONTROL_FILE_LEN;
        let segment = 24 << 10;
        assert!(of_segments < 2 * segment, "{of_segments} bytes");
        let log = Log::open(&*system, PATH, OpenMode::OpenExisting, small());
        let log = log.expect("it is repaired");
        let kept = commit_some(&log, 10);
        assert_eq!(read(&log, log.front_lsn()), kept);
        let last = kept.last().expect("just now");
        log.truncate_front(last.start)
            .expect("a record begins there");
        // The files of the lost segments may be reused.
        for round in 1..10 {
            assert_eq!(commit_some(&log, 100).len(), 1 + 4 * round);
        }
        log.close().expect("nothing fails");
    });
}
