//! Backups of a log that is written and truncated at the same time.

use crate::common::open;
use logforce_core::{
    BackupOptions, BackupReport, Error, ErrorKind, Log, Lsn, OpenMode, Options, Record, backup,
};
use logforce_device::Runtime;
use logforce_sim::model::{PATH, small};
use logforce_testkit::{Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COPY: &str = "/copy";

/// Start, end and bytes of the acknowledged records.
type Known = Arc<Mutex<Vec<(Lsn, Lsn, Vec<u8>)>>>;

fn options() -> Options {
    small().max_batch_size(16 << 10).buffer_size(64 << 10)
}

fn copy(disk: &SimDisk, rt: &SimRuntime) -> Log {
    let copied = Log::open(&*disk.system(rt), COPY, OpenMode::OpenExisting, options());
    copied.unwrap_or_else(|e| panic!("{e}"))
}

fn records(log: &Log) -> Vec<Record> {
    let read = log.read_from(log.front_lsn()).expect("it is read");
    read.map(|r| r.expect("whole")).collect()
}

/// A backup has all records that were acknowledged before it, none from its end on, and no others.
#[test]
fn a_log_that_is_written_and_truncated_meanwhile() {
    for seed in 0..40 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        let known = Known::default();
        let made: BackupReport = SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &options()).expect("opened");
            log.set_meta(b"vote").expect("set");
            let stop = Arc::new(AtomicBool::new(false));
            let mut joiners = Vec::new();
            for writer in 0..3u8 {
                let (log, known, stop) = (log.clone(), known.clone(), stop.clone());
                let mut rng = Rng::new(seed * 3 + u64::from(writer));
                let body = move || {
                    for n in 0..60u8 {
                        if stop.load(SeqCst) {
                            break;
                        }
                        let mut data = vec![writer; 1 + rng.below(4_000) as usize];
                        data.push(n);
                        let at = log.commit(&data).expect("nothing fails");
                        known.lock().unwrap().push((at.start, at.end, data));
                        if rng.one_in(10) {
                            log.truncate_front(at.start).expect("nothing fails");
                        }
                    }
                };
                joiners.push(rt.spawn("writer", Box::new(body)).unwrap());
            }
            for n in 0..20u8 {
                let at = log.commit([9, n]).expect("nothing fails");
                known.lock().unwrap().push((at.start, at.end, vec![9, n]));
            }
            let before: Vec<_> = known.lock().unwrap().clone();
            let made = log
                .backup(COPY, BackupOptions::new())
                .unwrap_or_else(|e| panic!("{seed}: {e}"));
            assert!(before.iter().all(|(_, end, _)| *end <= made.end));
            stop.store(true, SeqCst);
            for joiner in joiners {
                joiner.join().unwrap();
            }
            assert_eq!(copy(&disk, rt).id(), log.id());
            log.close().expect("nothing fails");
            made
        });
        SimRuntime::run(seed, |rt| {
            let copied = copy(&disk, rt);
            assert_eq!(copied.front_lsn(), made.front);
            assert_eq!(copied.meta().unwrap(), b"vote");
            let mut expected = std::mem::take(&mut *known.lock().unwrap());
            expected.retain(|(start, end, _)| *start >= made.front && *end <= made.end);
            expected.sort();
            let found: Vec<_> = records(&copied)
                .into_iter()
                .map(|r| (r.start, r.end, r.data))
                .collect();
            assert_eq!(found, expected, "{seed}");
            copied.commit(b"goes on").expect("it is a log");
            copied.close().expect("nothing fails");
        });
    }
}

/// A backup of another process's log has the records that stamps prove, or all after a close.
#[test]
fn a_log_of_another_process() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &options()).expect("opened");
        for n in 0..20u8 {
            log.commit(vec![n; 3_000]).expect("nothing fails");
        }
        let system = disk.system(rt);
        let make = |to: &str| {
            let (from, to) = (Path::new(PATH), Path::new(to));
            backup(&*system, from, to, BackupOptions::new())
        };
        let beside = make("/beside").expect("made");
        assert!(beside.end <= log.durable_lsn());
        log.close().expect("nothing fails");
        make(COPY).expect("made");
        let all = records(&copy(&disk, rt));
        assert_eq!(all.len(), 20);
        let opened = Log::open(&*system, "/beside", OpenMode::OpenExisting, options());
        let part = records(&opened.expect("it opens"));
        assert!(
            part.len() >= 18,
            "all records that a stamp proves: {}",
            part.len()
        );
        assert_eq!(part[..], all[..part.len()]);
    });
}

#[test]
fn places_that_are_refused() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &options()).expect("opened");
        log.commit(b"x").expect("nothing fails");
        let refused = |to: &str, why: &str| {
            let e = log.backup(to, BackupOptions::new()).expect_err(to);
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
            assert!(e.to_string().contains(why), "{e}");
        };
        refused(PATH, "own directory");
        refused(&format!("{PATH}/inside"), "own directory");
        log.backup(COPY, BackupOptions::new()).expect("made");
        refused(COPY, "not empty");
        // A backup without enough space does not begin.
        disk.change(|o| o.capacity = Some(600 << 10));
        let e = log
            .backup("/small", BackupOptions::new())
            .expect_err("no space");
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
        assert!(e.to_string().contains("backup"), "{e}");
        assert!(disk.names("/small").is_empty(), "nothing is left");
        disk.change(|o| o.capacity = None);
        log.close().expect("nothing fails");
    });
}

/// An error leaves no copy, and the log goes on.
#[test]
fn a_call_that_fails() {
    let mut failed = 0;
    for at in 0..120 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, &options().idle_stamp(Duration::MAX));
            let log = log.expect("opened");
            for n in 0..8u8 {
                log.commit(vec![n; 5_000]).expect("nothing fails");
            }
            disk.fail_at(disk.ops() + at, Fault::Io);
            let made = log.backup(COPY, BackupOptions::new());
            let open = || Log::open(&*disk.system(rt), COPY, OpenMode::OpenExisting, options());
            // If the backup did not meet the failure, the first opening does.
            match (made, open().or_else(|_| open())) {
                (Ok(_), Ok(copied)) => assert_eq!(records(&copied).len(), 8),
                (Err(Error::Poisoned { .. }), _) => {}
                (Err(_), opened) => {
                    failed += 1;
                    assert!(opened.is_err(), "{at}");
                    log.backup(COPY, BackupOptions::new())
                        .unwrap_or_else(|e| panic!("{at}: {e}"));
                }
                (Ok(_), Err(e)) => panic!("{at}: {e}"),
            }
        });
    }
    assert!(failed > 10, "{failed}");
}

/// A close waits for a backup, which copies this log's own files.
#[test]
fn a_close_waits_for_a_backup() {
    for seed in 0..20 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &options()).expect("opened");
            for n in 0..8u8 {
                log.commit(vec![n; 5_000]).expect("nothing fails");
            }
            let closed = Arc::new(AtomicBool::new(false));
            let mut closer = None;
            let made = log.backup(
                COPY,
                BackupOptions::new().progress(|done, all| {
                    if closer.is_none() {
                        let (log, closed) = (log.clone(), closed.clone());
                        let body = move || {
                            log.close().expect("nothing fails");
                            closed.store(true, SeqCst);
                        };
                        closer = Some(rt.spawn("closer", Box::new(body)).unwrap());
                    }
                    rt.sleep(Duration::from_millis(1));
                    assert!(!closed.load(SeqCst), "{seed}: closed at {done} of {all}");
                }),
            );
            made.unwrap_or_else(|e| panic!("{seed}: {e}"));
            closer.expect("it was called").join().unwrap();
            assert!(closed.load(SeqCst));
            assert_eq!(records(&copy(&disk, rt)).len(), 8);
        });
    }
}

/// If the log must move the front past a backup, the backup reports it and leaves no files.
#[test]
fn a_backup_whose_pin_is_broken() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &options().max_pinned_size(8 << 10)).expect("opened");
        for n in 0..12u8 {
            log.commit(vec![n; 5_000]).expect("nothing fails");
        }
        let mut calls = 0;
        let made = log.backup(
            COPY,
            BackupOptions::new().progress(|_, _| {
                calls += 1;
                if calls == 2 {
                    let last = log.last().expect("it is read").expect("twelve");
                    log.truncate_front(last.start).expect("the pin breaks");
                    for n in 0..12u8 {
                        log.commit(vec![n; 5_000]).expect("nothing fails");
                    }
                }
            }),
        );
        let e = made.expect_err("the copied records are gone");
        assert_eq!(e.kind(), ErrorKind::Truncated, "{e}");
        assert!(disk.names(COPY).is_empty(), "nothing is left");
        log.close().expect("nothing fails");
    });
}
