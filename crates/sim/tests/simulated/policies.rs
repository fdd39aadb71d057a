//! Policies: what their commits wait for, their guarantees, and their cost on the device.

use logforce_core::{Batch, Guarantee, Log, Method, OpenMode, Options, Policy};
use logforce_device::{Runtime, System, WriteCache};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

const WITHIN: Duration = Duration::from_millis(10);
const WRITE: Policy = Policy::Write {
    force_within: WITHIN,
};
const INTERVAL: Policy = Policy::Interval { within: WITHIN };

fn disk() -> SimDisk {
    let options = SimOptions {
        write_cache: WriteCache::Back,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

fn open(disk: &SimDisk, rt: &SimRuntime, method: Method) -> Log {
    let system = disk.system(rt);
    let options = Options::new()
        .segment_size(1 << 20)
        .max_batch_size(64 << 10)
        .buffer_size(128 << 10)
        .require(Guarantee::Nothing)
        .live_stats(false)
        .method(method);
    let log = Log::open(
        &*system as &dyn System,
        "/log",
        OpenMode::OpenOrCreate,
        options,
    )
    .expect("nothing fails");
    // The next segment is prepared, and the last stamp is written.
    rt.sleep(Duration::from_secs(1));
    log
}

#[test]
fn what_each_policy_returns() {
    for (method, written) in [
        (Method::DirectDsync, Guarantee::OsCrash),
        (Method::DirectFdatasync, Guarantee::OsCrash),
        (Method::Dsync, Guarantee::ProcessCrash),
        (Method::Fdatasync, Guarantee::ProcessCrash),
    ] {
        let disk = disk();
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, method);
            let before = disk.counters();
            let done = log.commit_with(b"staged", INTERVAL).unwrap();
            assert_eq!(done.guarantee, Guarantee::Nothing, "{method}");
            assert_eq!(disk.counters(), before, "{method}");
            let done = log.commit_with(b"written", WRITE).unwrap();
            assert_eq!(done.guarantee, written, "{method}");
            let after = disk.counters();
            assert_eq!(after.writes, before.writes + 1, "{method}");
            assert_eq!(after.barriers, before.barriers, "{method}");
            assert_eq!(after.through_writes, before.through_writes, "{method}");
            // The batch before it is unforced, and a write-through would make only itself durable.
            let done = log.commit_with(b"forced", Policy::Force).unwrap();
            assert_eq!(done.guarantee, Guarantee::PowerLoss, "{method}");
            let forced = disk.counters();
            assert_eq!(forced.barriers, before.barriers + 1, "{method}");
            assert_eq!(forced.through_writes, before.through_writes, "{method}");
            disk.cut();
            rt.tolerate_panics();
        });
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
        SimRuntime::run(2, |rt| {
            let log = open(&disk, rt, method);
            let records = log.read_from(log.front_lsn()).unwrap();
            assert_eq!(records.count(), 3, "{method}");
            log.close().unwrap();
        });
    }
}

#[test]
fn deadlines_are_met_with_one_force_for_all() {
    for method in [Method::DirectDsync, Method::Fdatasync] {
        for policy in [WRITE, INTERVAL] {
            let disk = disk();
            SimRuntime::run(1, |rt| {
                let log = open(&disk, rt, method);
                let before = disk.counters();
                let first = rt.now();
                let mut last = log.durable_lsn();
                for _ in 0..20 {
                    last = log.commit_with(b"soon", policy).unwrap().end;
                }
                let committed = rt.now();
                assert!(committed < first + WITHIN / 2, "too slow to tell");
                rt.sleep(first + WITHIN - committed);
                assert!(log.durable_lsn() >= last, "{method} {policy:?}");
                let counters = disk.counters();
                let forces = counters.barriers + counters.through_writes
                    - before.barriers
                    - before.through_writes;
                // One force, and a stamp if the force covered several batches.
                let most = 1 + u64::from(policy == WRITE);
                assert!(
                    (1..=most).contains(&forces),
                    "{method} {policy:?}: {forces}"
                );
                log.close().unwrap();
            });
        }
    }
}

/// A force of another thread before the deadline suffices.
#[test]
fn a_force_that_is_not_owed_any_more_is_not_done() {
    let disk = disk();
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, Method::DirectDsync);
        log.commit_with(b"soon", INTERVAL).unwrap();
        let done = log.commit(b"now").unwrap();
        assert!(log.durable_lsn() >= done.end);
        let before = disk.counters();
        rt.sleep(WITHIN * 2);
        assert_eq!(disk.counters(), before);
        log.close().unwrap();
    });
}

/// An idle log does nothing with a method without stamps, or if there is nothing to stamp.
#[test]
fn an_idle_log_sleeps() {
    for method in [
        Method::Buffered,
        Method::Direct,
        Method::DirectDsync,
        Method::Fdatasync,
    ] {
        let disk = disk();
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, method);
            log.commit(b"once").unwrap();
            rt.sleep(Duration::from_secs(1));
            let (steps, before) = (rt.steps(), disk.counters());
            rt.sleep(Duration::from_secs(100));
            assert!(rt.steps() - steps < 20, "{method}: {}", rt.steps() - steps);
            assert_eq!(disk.counters(), before, "{method}");
            log.close().unwrap();
        });
    }
}

/// Records that stream in after a force without another force: at most one stamp writes some of them, the
/// rest is written when batches fill.
#[test]
fn a_stream_without_forces_is_not_forced() {
    for (every, method) in [
        (Duration::from_micros(20), Method::DirectDsync),
        (Duration::from_millis(10), Method::DirectDsync),
        (Duration::from_millis(10), Method::Fdatasync),
    ] {
        let disk = disk();
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, method);
            // A force of more than one batch needs a separate stamp.
            let at = log.append(&[1; 100_000]).unwrap();
            log.force(at.end).unwrap();
            let before = disk.counters();
            for _ in 0..400 {
                log.append(&[2; 100]).unwrap();
                rt.sleep(every);
            }
            let counters = disk.counters();
            let forces = counters.barriers + counters.through_writes
                - before.barriers
                - before.through_writes;
            assert!(forces <= 2, "{every:?} {method}: {forces} forces");
            log.close().unwrap();
        });
    }
}

/// Records that a stamp made durable unasked are reported as durable at the next force, without another
/// write.
#[test]
fn what_a_stamp_took_along_is_durable_when_asked_for() {
    let disk = disk();
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, Method::DirectDsync);
        log.commit(b"first").unwrap();
        let second = log.append(b"second").unwrap();
        rt.sleep(Duration::from_secs(1));
        assert!(log.durable_lsn() < second.end, "forced unasked");
        let before = disk.counters();
        let forcing = log.submit(Batch::new(), Policy::Force).unwrap();
        assert_eq!(forcing.wait().unwrap().guarantee, Guarantee::PowerLoss);
        assert!(log.durable_lsn() >= second.end);
        assert_eq!(disk.counters().writes, before.writes);
        log.close().unwrap();
    });
}

/// A stamp makes records with a later deadline durable. They are reported as durable at the deadline.
#[test]
fn what_a_stamp_took_along_is_shown_at_its_deadline() {
    for policy in [
        Policy::Write {
            force_within: Duration::from_millis(300),
        },
        Policy::Interval {
            within: Duration::from_millis(300),
        },
    ] {
        for method in [Method::DirectDsync, Method::Fdatasync] {
            let disk = disk();
            SimRuntime::run(1, |rt| {
                let log = open(&disk, rt, method);
                log.commit(b"now").unwrap();
                let later = log.commit_with(b"later", policy).unwrap();
                let mut follower = log.follow_lsn(log.durable_lsn()).unwrap();
                rt.sleep(Duration::from_millis(300));
                assert!(log.durable_lsn() >= later.end, "{method} {policy:?}");
                let shown = follower.next_blocking().unwrap().unwrap();
                assert_eq!(shown.data, b"later");
                log.close().unwrap();
            });
        }
    }
}
