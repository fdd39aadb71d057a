//! Bugs that an external review found; each lost or hid acknowledged data.

use crate::common::open;
use logforce_core::{ErrorKind, Log, Lsn, Method, Options};
use logforce_device::WriteCache;
use logforce_sim::model::PATH;
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

fn small() -> Options {
    let options = Options::new().segment_size(65536).max_batch_size(16384);
    options.buffer_size(65536).live_stats(false)
}

fn all(log: &Log) -> Vec<Vec<u8>> {
    let records = log.read_from(log.front_lsn()).unwrap();
    records.map(|r| r.unwrap().data).collect()
}

/// A record was written together with an idle stamp, which did not cover it. No other stamp followed, and
/// when the record was damaged, it passed for a torn write.
#[test]
fn what_goes_along_with_a_stamp_is_stamped_too() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let at = SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &small()).unwrap();
        log.commit(b"first").unwrap();
        let second = log.append(b"second").unwrap();
        rt.sleep(Duration::from_secs(1));
        log.force(second.end).unwrap();
        rt.sleep(Duration::from_secs(1));
        disk.cut();
        rt.tolerate_panics();
        drop(log);
        second.start.0
    });
    disk.crash(Failure::Power, Some(Survival::Lost), 1);
    let name = format!("{:016x}.seg", 0);
    disk.flip_bit(PATH, &name, at + 9, 3);
    SimRuntime::run(2, |rt| {
        let refused = open(&disk, rt, &small()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
        assert!(refused.lsn().unwrap() <= Lsn(at));
    });
}

/// A control file restored from an older copy does not name the later segments. They were removed as
/// leftovers.
#[test]
fn an_older_control_file_removes_nothing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let old = SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &small()).unwrap();
        log.commit(b"0").unwrap();
        log.close().unwrap();
        disk.file_bytes(PATH, "control").unwrap()
    });
    let written = SimRuntime::run(2, |rt| {
        let log = open(&disk, rt, &small()).unwrap();
        for n in 1..100u32 {
            log.commit(&vec![n as u8; 9_000]).unwrap();
        }
        let written = all(&log);
        log.close().unwrap();
        written
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
    disk.put_file(PATH, "control", &old);
    SimRuntime::run(3, |rt| {
        let log = open(&disk, rt, &small()).unwrap();
        assert_eq!(all(&log), written);
        log.commit(b"more").unwrap();
        log.close().unwrap();
        let log = open(&disk, rt, &small()).unwrap();
        assert_eq!(all(&log).len(), written.len() + 1);
        log.close().unwrap();
    });
}

/// An opening that began a new segment failed at its first barrier. The cache showed the batch that says so,
/// but the medium did not have it. The next opening went on after the gap, which no batch voided.
#[test]
fn a_jump_that_is_only_in_the_cache_is_not_taken() {
    let options = |unit| small().method(Method::Fdatasync).write_unit_size(unit);
    for op in 5..40 {
        for survival in [Survival::Lost, Survival::Kept] {
            let world = SimOptions {
                write_cache: WriteCache::Back,
                ..SimOptions::default()
            };
            let disk = SimDisk::new(world, op);
            SimRuntime::run(1, |rt| {
                let log = open(&disk, rt, &options(4096)).unwrap();
                for n in 0..3u8 {
                    log.commit(&[n; 100]).unwrap();
                }
                log.close().unwrap();
            });
            disk.fail_at(disk.ops() + op, Fault::Io);
            SimRuntime::run(2, |rt| {
                // The opening fails, or the preallocator meets the fault, or no call does.
                drop(open(&disk, rt, &options(8192)));
            });
            let opened = SimRuntime::run(3, |rt| {
                let Ok(log) = open(&disk, rt, &options(8192)) else {
                    return false;
                };
                log.commit(b"acknowledged").unwrap();
                log.close().unwrap();
                true
            });
            disk.crash(Failure::Power, Some(survival), op);
            SimRuntime::run(4, |rt| {
                let log = open(&disk, rt, &options(4096))
                    .unwrap_or_else(|e| panic!("fault at {op}: {e}"));
                assert_eq!(all(&log).len(), 3 + usize::from(opened), "fault at {op}");
                log.close().unwrap();
            });
        }
    }
}
