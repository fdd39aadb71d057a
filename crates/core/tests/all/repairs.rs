//! Repairs in which calls fail: no record is lost, and the next repair completes the failed one.

use crate::openings::{RECORDS, assert_untouched, files, fill, options, repair_log};
use logforce_core::{Error, Inspector, Log, OpenMode, Visit};
use logforce_device::System;
use logforce_testkit::{FailingCalls, Failure, Fault, Refusal, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each call of a repair of a healthy log fails once, or all from there on, with an error that proves nothing
/// about the medium. The repair changes nothing, and reports no damage.
#[test]
fn a_repair_of_a_healthy_log_that_fails_changes_nothing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| fill(&*disk.system(rt)));
    // The log is in the state after a crash, so that the tail is read past the cache.
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, "/log", OpenMode::OpenExisting, options()).unwrap();
        log.commit(&[RECORDS; 4000]).unwrap();
        disk.crash(Failure::Process, None, 1);
    });
    let crashed = disk.snapshot();
    let mut failed = 0;
    for how in Refusal::OF_THE_PROCESS {
        for after in 0.. {
            let repaired = [1, u64::MAX].map(|failing| {
                let disk = SimDisk::new(SimOptions::default(), 1);
                disk.restore(&crashed);
                let before = files(&disk);
                disk.fail_calls(FailingCalls {
                    calls: Vec::new(),
                    how,
                    after,
                    failing,
                });
                let repaired = SimRuntime::run(1, |rt| repair_log(&*disk.system(rt)));
                disk.stop_failing_calls();
                let what = format!("{how:?} after {after}, {failing}");
                match &repaired {
                    Err(e) => assert!(matches!(e, Error::Io { .. }), "{what}: {e}"),
                    Ok(report) => assert_untouched(report, &what),
                }
                assert!(files(&disk) == before, "{what}");
                assert_eq!(disk.names("/").keys().len(), 0, "{what}");
                repaired.is_ok()
            });
            failed += repaired.iter().filter(|repaired| !**repaired).count();
            if repaired[1] {
                break;
            }
        }
    }
    assert!(failed > 100, "{failed} repairs failed");
}

/// Creates a log in which acknowledged data above the anchor is damaged. Returns the records below the
/// damage.
fn damaged(disk: &SimDisk) -> BTreeSet<u8> {
    let starts = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let options = options().segment_size(1 << 20);
        let log = Log::open(&*system, "/log", OpenMode::CreateNew, options).unwrap();
        let commit = |n| log.commit(&[n; 4000]).unwrap().start;
        let starts: Vec<_> = (0..RECORDS).map(commit).collect();
        disk.crash(Failure::Process, None, 1);
        starts
    });
    let hit = starts[20].0 + 500;
    assert!(disk.flip_bit("/log", "0000000000000000.seg", hit, 1));
    (0..20).collect()
}

/// Returns the first bytes of all records that salvage finds in a directory.
fn shown(system: &dyn System, path: &Path) -> BTreeSet<u8> {
    let mut shown = BTreeSet::new();
    let inspector = Inspector::salvage(system, path).unwrap();
    let walked = inspector.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit {
            shown.insert(record.data[0]);
        }
        true
    });
    walked.unwrap();
    shown
}

/// Each operation of a repair fails once. After another repair the log ends before the damage, and the copies
/// contain every record that can be read behind it.
#[test]
fn a_repair_that_fails_is_made_again() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let below = damaged(&disk);
    let damaged = disk.snapshot();
    let (mut failed, mut kept) = (0, 0);
    for op in 0.. {
        let disk = SimDisk::new(SimOptions::default(), 1);
        disk.restore(&damaged);
        let (first, ops) = SimRuntime::run(1, |rt| {
            disk.fail_at(op, Fault::Io);
            (repair_log(&*disk.system(rt)), disk.ops())
        });
        if op >= ops {
            break;
        }
        let what = format!("operation {op}");
        let mut asides: BTreeSet<PathBuf> = BTreeSet::new();
        match &first {
            Err(e) => {
                failed += 1;
                assert!(matches!(e, Error::Io { .. }), "{what}: {e}");
            }
            Ok(report) => asides.extend(report.aside.clone()),
        }
        SimRuntime::run(2, |rt| {
            let system = disk.system(rt);
            let report = repair_log(&*system).unwrap_or_else(|e| panic!("{what}: {e}"));
            // A repair that failed only in its last steps has already repaired the log.
            assert!(first.is_err() || report.aside.is_none(), "{what}");
            asides.extend(report.aside);
            let log = Log::open(&*system, "/log", OpenMode::OpenExisting, options());
            let log = log.unwrap_or_else(|e| panic!("{what}: {e}"));
            let records = log.read_from(log.front_lsn()).unwrap();
            let found: BTreeSet<u8> = records.map(|r| r.unwrap().data[0]).collect();
            assert_eq!(found, below, "{what}");
            log.close().unwrap();
            for aside in asides {
                let cut = shown(&*system, &aside);
                assert_eq!(cut, (21..RECORDS).collect(), "{what}: {}", aside.display());
                kept += 1;
            }
        });
    }
    assert!(
        failed > 20 && kept > 20,
        "{failed} repairs failed, {kept} copies"
    );
}
