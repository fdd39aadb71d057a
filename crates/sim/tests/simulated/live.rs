//! The page of statistics in the log's directory: its contents, the times of its writes, and that no call
//! depends on it.

use crate::common::opened;
use crate::crash::{bulk, case, spanning, truncation};
use logforce_core::{Inspector, LiveStats, Log, Method, OpenMode, Options};
use logforce_device::{OpenFile, ReadSource};
use logforce_sim::model::{PATH, small};
use logforce_sim::workload::WorkloadOutcome;
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

const LIVE: &str = "live";

fn live() -> Options {
    small().live_stats(true)
}

fn page(disk: &SimDisk, rt: &SimRuntime) -> Option<LiveStats> {
    Inspector::open(&*disk.system(rt), PATH).unwrap().live()
}

/// Returns the file as the system shows it; the medium may never get it.
fn bytes(disk: &SimDisk, rt: &SimRuntime) -> Vec<u8> {
    let dir = disk.system(rt).directory(PATH.as_ref()).unwrap();
    let file = dir.open(LIVE, OpenFile::READ).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    let read = file.read_at(0, &mut bytes, ReadSource::Cache).unwrap();
    bytes.truncate(read);
    bytes
}

/// Returns the number of operations on the page that the disk has seen.
fn touched(disk: &SimDisk) -> usize {
    let log = disk.log();
    let writes = log.lines().filter(|l| l.contains(": submit live["));
    writes.count()
}

fn talkative() -> SimDisk {
    let options = SimOptions {
        log_lines: 1 << 20,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

/// The page matches the log's statistics, also with methods without stamps, which never wake the writing
/// thread.
#[test]
fn it_says_what_the_log_says() {
    use logforce_core::Guarantee::ProcessCrash;
    for method in [Method::DirectDsync, Method::Fdatasync, Method::Buffered] {
        let disk = talkative();
        let options = live().method(method).require(ProcessCrash);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, options);
            for n in 0..30 {
                log.commit(&[1; 100]).unwrap();
                if n % 10 == 9 {
                    rt.sleep(Duration::from_secs(3));
                }
            }
            let (stats, live) = (log.stats(), page(&disk, rt).expect("a page"));
            // The page is written after everything else, but before its own write is counted.
            let mut expected = stats.counters;
            expected.device_writes -= 1;
            expected.device_write_bytes -= 4096;
            assert_eq!(live.counters, expected, "{method}");
            assert_eq!(live.counters.records, 30);
            assert_eq!(live.durable, log.durable_lsn());
            assert_eq!(live.commit.count, 30);
            assert_eq!(live.commit.p50, stats.commit.quantile(0.5));
            assert_eq!(live.force.max, stats.force.max());
            assert_eq!(live.commit_to_force_ratio(), stats.commit_to_force_ratio());
            assert!(live.open_for > Duration::from_secs(5) && live.open_for < stats.open_for);
            assert_eq!(live.pid, 1);
            // While the log is idle there are no disk operations.
            let ops = disk.ops();
            rt.sleep(Duration::from_secs(1000));
            assert_eq!(disk.ops(), ops, "{method}");

            log.commit(b"the last").unwrap();
            log.close().unwrap();
            let last = page(&disk, rt).expect("a page");
            assert_eq!(last.counters.records, 31, "{method}");
            let inspector = Inspector::open(&*disk.system(rt), PATH).unwrap();
            assert_eq!(last.epoch, inspector.summary().epoch);
        });
        let barriers = disk.log();
        assert!(!barriers.contains("barrier live"), "{method}");
    }
}

#[test]
fn it_is_written_once_a_second_at_most_and_can_be_turned_off() {
    let disk = talkative();
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, live().segment_size(4 << 20));
        rt.set_step_limit(u64::MAX);
        for _ in 0..500 {
            log.commit(b"a record").unwrap();
            rt.sleep(Duration::from_millis(20));
        }
        let count = touched(&disk);
        assert!((5..=15).contains(&count), "{count} in 10 s");
        log.close().unwrap();
    });
    let disk = talkative();
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, small());
        log.commit(b"a record").unwrap();
        rt.sleep(Duration::from_secs(10));
        log.close().unwrap();
        assert_eq!(page(&disk, rt), None);
    });
    assert!(!disk.log().contains("live"));
}

/// A page that is missing, short, damaged, unreadable or of another log is ignored.
#[test]
fn rubbish_is_no_page_and_no_error() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let whole = SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, live());
        log.commit(b"a record").unwrap();
        log.close().unwrap();
        bytes(&disk, rt)
    });
    assert_eq!(whole.len(), 4096);
    let mut long = whole.clone();
    long.resize(70_000, 7);
    let rotten = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let rubbish = [
        (Vec::new(), false),
        (vec![0; 4096], false),
        (vec![0xff; 9000], false),
        (whole[..4095].to_vec(), false),
        (rotten(0), false),
        (rotten(20), false),
        (rotten(4000), false),
        (long, true),
    ];
    for (bytes, says) in rubbish {
        disk.put_file(PATH, LIVE, &bytes);
        SimRuntime::run(2, |rt| {
            assert_eq!(page(&disk, rt).is_some(), says);
            let log = opened(&disk, rt, live());
            log.commit(b"another").unwrap();
            log.close().unwrap();
            assert!(page(&disk, rt).is_some(), "it is written over");
        });
    }
    disk.put_file(PATH, LIVE, &whole);
    disk.crash(Failure::Power, Some(Survival::Lost), 1);
    assert!(disk.make_unreadable(PATH, LIVE, 100));
    SimRuntime::run(3, |rt| {
        assert_eq!(page(&disk, rt), None);
        let log = opened(&disk, rt, live());
        log.close().unwrap();
    });
    assert!(disk.remove_file(PATH, LIVE));
    SimRuntime::run(4, |rt| {
        assert_eq!(page(&disk, rt), None);
        let log = opened(&disk, rt, small());
        log.close().unwrap();
        assert_eq!(page(&disk, rt), None, "it is turned off");
    });
    // A page of another log.
    let other = SimDisk::new(SimOptions::default(), 2);
    SimRuntime::run(5, |rt| {
        opened(&other, rt, small()).close().unwrap();
        other.put_file(PATH, LIVE, &whole);
        assert_eq!(page(&other, rt), None);
    });
}

/// A directory with only the page counts as empty.
#[test]
fn alone_it_is_no_log() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, live());
        log.commit(b"a record").unwrap();
        log.close().unwrap();
        for name in disk.stable_names(PATH) {
            disk.remove_file(PATH, &name);
        }
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, live()).unwrap();
        log.close().unwrap();
    });
}

#[test]
fn a_crash_at_every_operation() {
    let mut steps = spanning();
    for ms in [1, 1500, 700] {
        steps.push(logforce_sim::workload::Step::Idle(ms));
        steps.push(logforce_sim::workload::Step::Commit(300));
    }
    let mut case = case("live", vec![steps]);
    case.options = live();
    case.crash_at(Failure::Power, 2, 0, 2);
    case.crash_at(Failure::Process, 1, 1, 6);
}

/// After any failure of the page, the log continues as if nothing had failed.
#[test]
fn its_failures_fail_no_call() {
    let mut case = case("live", vec![bulk()]);
    case.options = live();
    case.disk.log_lines = 1 << 20;
    for fault in [Fault::Io, Fault::NoSpace] {
        let whole = case.world("whole");
        whole.work_through(1, &case.threads[0]);
        let log = whole.disk.log();
        let ops: Vec<u64> = log
            .lines()
            .filter(|l| l.contains(" live[") || l.contains("create live"))
            .map(|l| {
                let number = l.trim_start_matches('#').split(' ').next().unwrap();
                number.parse().unwrap()
            })
            .collect();
        assert!(ops.len() > 3, "{log}");
        for op in ops {
            let world = case.world(&format!("{fault:?} at {op}"));
            world.disk.fail_at(op, fault);
            let outcome = world.work_through(1, &case.threads[0]);
            let failed = world.failed_operation();
            assert!(failed.contains("live"), "{failed}");
            assert!(
                matches!(outcome, WorkloadOutcome::Fine),
                "{failed}: {outcome:?}"
            );
        }
    }
}

/// On a full disk the page may find no space. It never takes space that the log has reserved.
#[test]
fn a_full_disk() {
    let mut case = case("live, full", vec![truncation()]);
    case.options = live();
    let world = case.world("whole");
    let outcome = world.work_through(1, &case.threads[0]);
    assert!(matches!(outcome, WorkloadOutcome::Fine));
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, live().segment_size(1 << 20));
        rt.sleep(Duration::from_secs(2));
        log.close().unwrap();
        disk.remove_file(PATH, LIVE);
        disk.change(|o| o.capacity = Some(0));
        let log = opened(&disk, rt, live().segment_size(1 << 20));
        for _ in 0..3 {
            log.commit(b"a record").unwrap();
            rt.sleep(Duration::from_secs(2));
        }
        assert_eq!(page(&disk, rt), None);
        disk.change(|o| o.capacity = None);
        log.commit(b"a record").unwrap();
        rt.sleep(Duration::from_secs(2));
        assert_eq!(page(&disk, rt).expect("now").counters.records, 4);
        log.close().unwrap();
    });
}
