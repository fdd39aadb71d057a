//! Backups that end at each of their operations: the copy does not open, or it is complete.

use logforce_core::{
    BackupOptions, BackupReport, Error, ErrorKind, Log, OpenMode, Options, backup,
};
use logforce_sim::model::small;
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::mem::ManuallyDrop;

const LOG: &str = "/log";
const COPY: &str = "/copy";

fn options() -> Options {
    // There are no timed stamps, so that each run has the same operations.
    small().idle_stamp(std::time::Duration::MAX)
}

/// Creates a log of several segments, truncated, with metadata and a voided range.
fn with_a_log() -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), 3);
    SimRuntime::run(1, |rt| {
        let log = Log::open(&*disk.system(rt), LOG, OpenMode::OpenOrCreate, options())?;
        for n in 0..6u8 {
            log.commit(vec![n; 5_000])?;
        }
        log.truncate_front(log.read_from(log.front_lsn())?.nth(2).expect("six")?.end)?;
        log.truncate_back(log.last()?.expect("three").start)?;
        log.set_meta(b"vote")?;
        log.commit(b"last")?;
        log.close()
    })
    .expect("nothing fails");
    disk
}

fn back_up(disk: &SimDisk, rt: &SimRuntime) -> Result<BackupReport, Error> {
    let log = Log::open(&*disk.system(rt), LOG, OpenMode::OpenExisting, options())?;
    let made = log.backup(COPY, BackupOptions::new())?;
    // Later records are not in the backup.
    log.commit(b"later")?;
    log.close()?;
    Ok(made)
}

fn contents(log: &Log) -> Vec<Vec<u8>> {
    let read = log.read_from(log.front_lsn()).expect("it is read");
    let mut all: Vec<_> = read.map(|r| r.expect("whole").data).collect();
    all.push(log.meta().expect("it is there"));
    all
}

/// Checks that the copy opens and is complete, or is refused as an unfinished backup. Returns whether it
/// opened.
fn check(disk: &SimDisk, what: &str) -> bool {
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, LOG, OpenMode::OpenExisting, options());
        let log = log.unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut expected = contents(&log);
        expected.retain(|data| data != b"later");
        log.close().expect("nothing fails");
        if system.directory(COPY.as_ref()).is_err() {
            return false;
        }
        match Log::open(&*system, COPY, OpenMode::OpenExisting, options()) {
            Ok(copy) => {
                assert_eq!(contents(&copy), expected, "{what}");
                copy.commit(b"goes on").expect("it is a log");
                copy.close().expect("nothing fails");
                true
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoLog, "{what}: {e}");
                let text = e.to_string();
                let says = text.contains("backup that was cut short") || text.contains("is empty");
                assert!(says, "{what}: {text}");
                // The backup is made again.
                let log = Log::open(&*system, LOG, OpenMode::OpenExisting, options());
                let log = log.expect("it opens");
                let made = log.backup(COPY, BackupOptions::new());
                made.unwrap_or_else(|e| panic!("{what}: again: {e}"));
                log.close().expect("nothing fails");
                let copy = Log::open(&*system, COPY, OpenMode::OpenExisting, options());
                drop(copy.unwrap_or_else(|e| panic!("{what}: again: {e}")));
                false
            }
        }
    })
}

#[test]
fn a_crash_at_every_operation() {
    let whole = with_a_log();
    let before = whole.ops();
    let made = SimRuntime::run(1, |rt| back_up(&whole, rt));
    assert!(made.expect("nothing fails").segments >= 2);
    let (mut opened, mut refused) = (0, 0);
    for op in before..=whole.ops() {
        let disk = with_a_log();
        disk.cut_at(op);
        let made = SimRuntime::run(1, |rt| back_up(&disk, rt));
        let image = disk.snapshot();
        for (n, survival) in Survival::ALL.into_iter().enumerate() {
            // Several subsets, so that each unsynced name is lost in one of them.
            let times = match survival {
                Survival::Writes | Survival::Sectors => 8,
                _ => 1,
            };
            let power = (0..times).map(|n| (Failure::Power, n));
            for (failure, k) in power.chain([(Failure::Process, 0)]) {
                disk.restore(&image);
                disk.crash(failure, Some(survival), 100 * op + 10 * n as u64 + k);
                let what = format!("cut at {}, {survival:?}, {failure:?}", op - before);
                match check(&disk, &what) {
                    true => opened += 1,
                    false => {
                        assert!(made.is_err(), "{what}: the backup was reported as made");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("backups: {opened} opened, {refused} refused");
    assert!(opened > 10 && refused > 10);
}

/// Another process truncates the log and goes on writing while its files are copied. Segments disappear and
/// come back as later ones. The copy is complete nevertheless, or begins again.
#[test]
fn a_truncation_at_every_step() {
    let mut steps = 0;
    let mut again = 0;
    for at in 0.. {
        let disk = SimDisk::new(SimOptions::default(), 3);
        let met = SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let log = Log::open(&*system, LOG, OpenMode::OpenOrCreate, options());
            let log = log.expect("nothing fails");
            let fill = |n: u8| {
                log.commit(vec![n; 5_000]).expect("nothing fails");
            };
            (0..12).for_each(fill);
            // A stamp that covers all records.
            log.set_meta(b"vote").expect("nothing fails");
            let mut calls = 0;
            let mut progress = |_, _| {
                if calls == at {
                    let before = log.last().expect("it is read").expect("twelve");
                    log.truncate_front(before.start).expect("nothing fails");
                    (20..26).for_each(fill);
                }
                calls += 1;
            };
            let (from, to) = (LOG.as_ref(), COPY.as_ref());
            let made = backup(
                &*system,
                from,
                to,
                BackupOptions::new().progress(&mut progress),
            );
            let made = made.unwrap_or_else(|e| panic!("step {at}: {e}"));
            let copy = Log::open(&*system, COPY, OpenMode::OpenExisting, options());
            let copy = copy.unwrap_or_else(|e| panic!("step {at}: {e}"));
            let read = |log: &Log, from| -> Vec<_> {
                let records = log.read_from(from).expect("it is read");
                records.map(|r| r.expect("whole")).collect()
            };
            let found = read(&copy, made.front);
            // All earlier records, or those that the truncation left.
            let firsts = [0, 11];
            let first = found.first().map(|r| r.data[0]);
            assert!(firsts.map(Some).contains(&first), "step {at}: {first:?}");
            if first == Some(11) {
                again += 1;
                let mut all = read(&log, made.front);
                all.truncate(found.len());
                assert_eq!(found, all, "step {at}");
            } else {
                assert!(found.len() >= 11, "step {at}: {}", found.len());
            }
            log.close().expect("nothing fails");
            calls > at
        });
        if !met {
            break;
        }
        steps += 1;
    }
    println!("truncations during a backup: {steps}, begun again {again}");
    assert!(steps > 3 && again > 2, "{steps}, {again}");
}

/// The progress callback closes the log: the backup ends, no call waits for itself, and the log is whole.
#[test]
fn a_close_at_every_step() {
    let mut steps = 0;
    for at in 0.. {
        let disk = with_a_log();
        let met = SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let log = Log::open(&*system, LOG, OpenMode::OpenExisting, options());
            // The log is not dropped if the test fails, because the drop would wait as well.
            let log = ManuallyDrop::new(log.expect("nothing fails"));
            let mut calls = 0;
            let made = log.backup(
                COPY,
                BackupOptions::new().progress(|_, _| {
                    if calls == at {
                        Log::clone(&log).close().expect("nothing fails");
                        // The log is closed and the lock is free.
                        let again = Log::open(&*system, LOG, OpenMode::OpenExisting, options());
                        drop(again.expect("nothing fails"));
                    }
                    calls += 1;
                }),
            );
            let kind = made.map(drop).map_err(|e| e.kind());
            let met = calls > at;
            let expected = if met { Err(ErrorKind::Closed) } else { Ok(()) };
            assert_eq!(kind, expected, "step {at}");
            Log::clone(&log)
                .close()
                .expect("it is closed, or nothing keeps it from that");
            met
        });
        check(&disk, &format!("step {at}"));
        if !met {
            break;
        }
        steps += 1;
    }
    assert!(steps > 3, "{steps}");
}
