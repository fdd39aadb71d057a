//! Voided records do not come back, even if the batch that voids them is removed with damage.

use crate::common::repaired;
use logforce_core::{
    BatchInfo, BatchKind, ErrorKind, Inspector, Log, Lsn, OpenMode, Options, Visit,
};
use logforce_device::System;
use logforce_sim::mending::{OnDamage, batches};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

fn open(system: &dyn System, options: Options) -> Log {
    Log::open(system, PATH, OpenMode::OpenOrCreate, options).expect("it opens")
}

/// Records over several segments are voided, and one of these segments is lost. The truncation at the damage
/// keeps the records before it, except the voided ones.
#[test]
fn a_truncation_at_damage_brings_nothing_back() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (back, lost) = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = open(&*system, small());
        log.commit(b"kept").expect("nothing fails");
        let back = log.commit(b"voided").expect("nothing fails");
        let commit = |len| log.commit(&vec![7; len]).expect("nothing fails");
        commit(20_000);
        let middle = commit(20_000);
        // The voiding batch must lie in another segment than the lost one.
        commit(20_000);
        commit(20_000);
        log.truncate_back(back.start).expect("nothing fails");
        log.commit(b"behind").expect("nothing fails");
        log.close().expect("nothing fails");
        (back.start, middle.start)
    });
    let names = disk.stable_names(PATH);
    let start = |name: &&String| {
        let start = name.strip_suffix(".seg")?;
        u64::from_str_radix(start, 16).ok()
    };
    let fixture = names
        .iter()
        .filter(|n| start(n).is_some_and(|s| s <= lost.0));
    let fixture = fixture.max().expect("the segment of the middle");
    assert!(disk.remove_file(PATH, fixture));
    for n in 0..2 {
        SimRuntime::run(2 + n, |rt| {
            let system = disk.system(rt);
            let report = OnDamage::Repair.mend(&*system).expect("it can be repaired");
            let log = open(&*system, small());
            assert_eq!(report.is_some_and(|r| r.cut.is_some()), n == 0);
            let shown = read(&log, log.front_lsn());
            assert_eq!(shown[0].data, b"kept");
            assert_eq!(shown.len() as u64, 1 + n, "{shown:?}");
            let kind = log.read_at(back).map_err(|e| e.kind());
            assert_eq!(kind.map(|e| e.data), Err(ErrorKind::Voided));
            log.commit(b"again").expect("nothing fails");
            log.close().expect("nothing fails");
        });
    }
}

/// Two neighbouring segments are unreadable for a while, and the log is truncated there. When they can be
/// read again, neither may count.
#[test]
fn segments_that_can_be_read_again_stay_cut() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&*disk.system(rt), small());
        for n in 0..8u8 {
            log.commit(&[n; 15_000]).expect("nothing fails");
        }
        log.close().expect("nothing fails");
    });
    let mut names = disk.stable_names(PATH);
    names.retain(|n| n.ends_with(".seg"));
    names.sort();
    for name in &names[2..4] {
        assert!(disk.make_unreadable(PATH, name, 0));
    }
    let shown = |seed, options: Options| {
        SimRuntime::run(seed, |rt| {
            let log = open(&*disk.system(rt), options);
            let shown = read(&log, log.front_lsn());
            log.close().expect("nothing fails");
            shown
        })
    };
    SimRuntime::run(2, |rt| OnDamage::Repair.mend(&*disk.system(rt))).expect("it can be repaired");
    let truncated = shown(2, small());
    assert!(!truncated.is_empty() && truncated.len() < 8);
    disk.lift_faults();
    // With another segment length than before.
    assert_eq!(shown(3, small().segment_size(32 << 10)), truncated);
    assert_eq!(shown(4, small()), truncated);
}

/// A log that was truncated at damage is truncated there again, because the batch by which it went on cannot
/// be read. When that batch can be read again, the records after the first truncation do not come back.
#[test]
fn the_first_of_two_truncations_does_not_come_back() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&*disk.system(rt), small());
        log.commit(b"kept").expect("nothing fails");
        for n in 0..4u8 {
            log.commit(&[n; 20_000]).expect("nothing fails");
        }
        log.close().expect("nothing fails");
    });
    let batches = |seed| batches(&disk, seed).1;
    let gives_up = |b: &&BatchInfo| b.kind == BatchKind::Epoch && b.void_from < b.lsn;
    let middle = batches(2).into_iter().find(|b| b.lsn > Lsn(30_000));
    let middle = middle.expect("more than a segment");
    assert!(disk.make_unreadable(PATH, &middle.file, 0));
    let truncate = |seed, more: &[u8]| {
        SimRuntime::run(seed, |rt| {
            let (log, report) = repaired(&disk, rt, &small());
            assert!(report.cut.is_some());
            if !more.is_empty() {
                log.commit(more).expect("nothing fails");
            }
            // The opening does nothing else.
            disk.cut();
        });
        disk.reboot(seed);
    };
    truncate(3, b"the first line");
    let all = batches(4);
    let first = all.iter().find(gives_up).expect("where it went on");
    assert!(disk.make_unreadable(PATH, &first.file, first.offset));
    truncate(5, b"");
    disk.lift_faults();
    SimRuntime::run(6, |rt| {
        let log = open(&*disk.system(rt), small());
        let shown = read(&log, log.front_lsn());
        let back = shown.iter().any(|e| e.data == b"the first line");
        assert!(!back, "records that were given up are back");
        assert_eq!(shown[0].data, b"kept");
        log.close().expect("nothing fails");
    });
}

/// The first segment of a log is lost, so that no record is left. The log that goes on is whole, and damage
/// in it loses only the records after the damage.
#[test]
fn a_log_truncated_to_nothing_goes_on() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&*disk.system(rt), small());
        let commit = |n: u8| log.commit(&[n; 5_000]).expect("nothing fails");
        let all: Vec<Lsn> = (0..12).map(|n| commit(n).start).collect();
        // Within a segment.
        log.truncate_front(all[7]).expect("nothing fails");
        log.close().expect("nothing fails");
    });
    let segments = || {
        let mut names = disk.stable_names(PATH);
        names.retain(|n| n.ends_with(".seg"));
        names.sort();
        names
    };
    assert!(disk.remove_file(PATH, &segments()[0]));
    let goes_on = |seed, records: &[u8]| {
        SimRuntime::run(seed, |rt| {
            let (log, report) = repaired(&disk, rt, &small());
            for n in records {
                log.commit(&[*n; 9_000]).expect("nothing fails");
            }
            let lost = report.cut.is_some();
            log.close().expect("nothing fails");
            lost
        })
    };
    assert!(goes_on(2, &[10, 11, 12, 13, 14, 15, 16, 17]));
    SimRuntime::run(3, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), PATH).expect("a healthy log");
        let mut shown = Vec::new();
        let walked = inspector.walk(&mut |visit| {
            match visit {
                Visit::Record { record, .. } => shown.push(record.data[0]),
                Visit::Damage(d) => panic!("{d}"),
                _ => {}
            }
            true
        });
        assert_eq!(walked.expect("it can be walked").damages, 0);
        assert_eq!(shown, [10, 11, 12, 13, 14, 15, 16, 17]);
    });
    let middle = SimRuntime::run(4, |rt| {
        let log = open(&*disk.system(rt), small());
        read(&log, log.front_lsn())[4].start
    });
    let holds = |n: &String| u64::from_str_radix(n.trim_end_matches(".seg"), 16);
    let names = segments();
    let middle = names
        .iter()
        .rfind(|n| holds(n).is_ok_and(|s| s <= middle.0));
    assert!(disk.remove_file(PATH, middle.expect("a segment holds it")));
    assert!(goes_on(5, &[]));
    SimRuntime::run(6, |rt| {
        let log = open(&*disk.system(rt), small());
        let shown = read(&log, log.front_lsn());
        assert!(
            !shown.is_empty() && shown.len() < 8,
            "{} records",
            shown.len()
        );
    });
}

/// A record fills its batch to the last byte, and everything after it is voided, or given up at damage.
/// Reading, following and truncating continue from its end.
#[test]
fn a_full_batch_before_voided_records() {
    // One write unit: header, frame header, data. One of these batches is the last in a segment.
    let full = [7; 4096 - 128 - 8];
    let mut losses = 0;
    for (count, damaged) in (1..8).flat_map(|n| [(n, false), (n, true)]) {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let end = SimRuntime::run(1, |rt| {
            let log = open(&*disk.system(rt), small());
            let mut end = Lsn::ORIGIN;
            for _ in 0..count {
                end = log.commit(&full).expect("nothing fails").end;
            }
            log.commit(b"behind it").expect("nothing fails");
            log.commit(b"and more").expect("nothing fails");
            if !damaged {
                log.truncate_back(end).expect("nothing fails");
            }
            disk.cut();
            end
        });
        disk.reboot(1);
        assert!(end.0.is_multiple_of(4096));
        if damaged {
            let mut batches = batches(&disk, 2).1;
            batches.retain(|b| b.lsn >= end);
            assert!(disk.make_unreadable(PATH, &batches[0].file, batches[0].offset));
        }
        SimRuntime::run(3, |rt| {
            let (log, report) = repaired(&disk, rt, &small());
            if damaged && report.cut.is_none() {
                // The damage lies below the anchor, where an opening does not read.
                return;
            }
            losses += u32::from(damaged);
            let kind = log.read_at(end).map_err(|e| e.kind());
            assert_eq!(kind.map(|e| e.data), Err(ErrorKind::Voided));
            let mut follower = log.follow_lsn(end).expect("a record ends there");
            log.commit(b"later").expect("nothing fails");
            assert_eq!(read(&log, end).len(), 1, "{count}, {damaged}");
            let next = follower.try_next().expect("nothing is voided");
            assert_eq!(next.map(|e| e.data), Some(b"later".to_vec()));
            drop(log.pin(end).expect("a record ends there"));
            log.truncate_front(end).expect("a record ends there");
            log.close().expect("nothing fails");
        });
        SimRuntime::run(4, |rt| {
            let log = open(&*disk.system(rt), small());
            assert_eq!(log.front_lsn(), end);
            assert_eq!(read(&log, end).len(), 1, "{count}, {damaged}");
        });
    }
    assert!(losses > 3);
}

/// Voided records are counted in any number of segments.
#[test]
fn voided_records_are_counted() {
    for segment_size in [16 << 10, 1 << 20] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let options = small().segment_size(segment_size);
            let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, options).expect("made");
            let ends: Vec<Lsn> = (0..20u8)
                .map(|n| log.commit(&[n; 3_000]).expect("nothing fails").end)
                .collect();
            log.truncate_back(ends[9]).expect("nothing fails");
            log.close().expect("nothing fails");
            let inspector = Inspector::open(&*system, PATH).expect("it can be inspected");
            let found = inspector.walk(&mut |_| true).expect("it can be walked");
            assert_eq!((found.records, found.voided, found.damages), (10, 10, 0));
        });
    }
}
