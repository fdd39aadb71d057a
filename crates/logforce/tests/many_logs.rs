//! Many logs in one environment: threads, descriptors and memory. These tests are a separate program, because
//! they count the resources of the process.
#![cfg(target_os = "linux")]

#[path = "all/common/mod.rs"]
mod common;

use common::record;
use logforce::{
    Environment, EnvironmentOptions, ErrorKind, Guarantee, Log, Options, Policy, Record,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const LOGS: usize = 100;
const OPEN_LOGS: usize = 8;
const THREADS: usize = 3;

/// Lets one test run at a time, because each counts the resources of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(dir: &str) -> usize {
    std::fs::read_dir(dir).expect("it is Linux").count()
}

fn descriptors() -> usize {
    // Excludes the descriptor that lists them.
    count("/proc/self/fd") - 1
}

/// Returns the number of threads of logs and environments. Excludes those of the test harness, which come and
/// go.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("it is Linux");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks
        .filter_map(name)
        .filter(|name| name.starts_with("logforce"))
        .count()
}

/// Waits until `is_so` returns true. After a time limit fails, and prints the environment's statistics.
fn until(what: &str, environment: &Environment, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let now = (environment.stats(), descriptors(), threads());
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn options(environment: &Environment) -> Options {
    Options::new()
        .require(Guarantee::ProcessCrash)
        .environment(environment)
}

fn open(paths: &[PathBuf], environment: &Environment) -> Vec<Log> {
    let logs = options(environment).create(true).open_many(paths);
    logs.into_iter().map(|log| log.expect("it opens")).collect()
}

fn records(log: &Log) -> Vec<Vec<u8>> {
    let read = log.read_from(log.front_lsn()).expect("it is read");
    read.map(|r: logforce::Result<Record>| r.expect("whole").data)
        .collect()
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("listed").flatten();
    entries.map(|e| e.metadata().expect("there").len()).sum()
}

#[test]
fn idle_logs_cost_one_descriptor_each_and_no_thread() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("made");
    let paths: Vec<_> = (0..LOGS).map(|n| dir.path().join(n.to_string())).collect();
    let (files_before, threads_before) = (descriptors(), threads());
    let limits = EnvironmentOptions::new()
        .threads(THREADS)
        .open_logs(OPEN_LOGS);
    let environment = logforce::environment(&limits).expect("threads start");
    let logs = open(&paths, &environment);
    assert_eq!(environment.stats().logs, LOGS);
    assert!(threads() <= threads_before + THREADS);

    for (n, log) in logs.iter().enumerate() {
        log.commit(record(n as u64, 100)).expect("durable");
        let soon = |within| Policy::Interval { within };
        log.commit_with(record(n as u64, 5_000), soon(Duration::from_millis(50)))
            .expect("accepted");
        log.commit_with(record(n as u64, 50), soon(Duration::from_millis(5)))
            .expect("accepted");
    }
    until("all are idle", &environment, || {
        environment.stats().logs_with_open_files == 0
    });
    assert!(
        descriptors() <= files_before + LOGS,
        "{} for {LOGS} logs",
        descriptors() - files_before
    );
    assert!(threads() <= threads_before + THREADS);
    assert_eq!(
        environment.stats().memory,
        0,
        "nothing is kept for idle logs"
    );
    let largest = paths.iter().map(|p| size(p)).max();
    assert!(largest < Some(1 << 20), "segments begin small: {largest:?}");

    // Reads while the logs are idle. Their files are closed again afterwards.
    for (n, log) in logs.iter().enumerate() {
        let n = n as u64;
        assert_eq!(
            records(log),
            [record(n, 100), record(n, 5_000), record(n, 50)]
        );
    }
    until("closed after reading", &environment, || {
        descriptors() <= files_before + LOGS
    });

    // All logs write repeatedly, but only some have their files open.
    for round in 0..3 {
        for log in &logs {
            log.commit(record(round, 300)).expect("durable");
        }
        until("crowded", &environment, || {
            environment.stats().logs_with_open_files <= OPEN_LOGS
        });
        assert!(descriptors() <= files_before + LOGS + 3 * OPEN_LOGS + 8);
    }

    // Drops the logs without a close, which is as close to a crash as one process can get.
    for log in logs {
        log.close().expect("closed");
    }
    assert_eq!(environment.stats().logs, 0);
    let logs = open(&paths, &environment);
    for (n, log) in logs.iter().enumerate() {
        let found = records(log);
        assert_eq!(found.len(), 6, "log {n}");
        assert_eq!(found[0], record(n as u64, 100));
        assert_eq!(found[5], record(2, 300));
    }
    drop(logs);
    drop(environment);
    assert_eq!(threads(), threads_before, "they end with the environment");
    assert_eq!(descriptors(), files_before);
}

/// Callbacks of some logs fill another log. All threads of the pool are in callbacks then, and write for that
/// log themselves.
#[test]
fn callbacks_that_wait_for_another_log_go_on() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("made");
    let environment =
        logforce::environment(&EnvironmentOptions::new().threads(2)).expect("started");
    let small = || {
        options(&environment)
            .segment_size(64 << 10)
            .max_batch_size(16 << 10)
            .buffer_size(16 << 10)
    };
    let to = logforce::create_new(dir.path().join("to"), small()).expect("opened");
    let from: Vec<_> = (0..4)
        .map(|n| logforce::create_new(dir.path().join(n.to_string()), small()).expect("opened"))
        .collect();
    let (done, results) = std::sync::mpsc::channel();
    for log in &from {
        let (to, done) = (to.clone(), done.clone());
        log.submit_then(b"copy me", Policy::Force, move |acknowledged| {
            acknowledged.expect("durable");
            let copied = (0..20u64).try_for_each(|n| to.append(record(n, 12 << 10)).map(drop));
            let _ = done.send(copied);
        })
        .expect("accepted");
    }
    for _ in &from {
        let copied = results.recv_timeout(Duration::from_secs(60));
        copied.expect("no callback waits for ever").expect("copied");
    }
    to.force(to.tail_lsn()).expect("durable");
    assert_eq!(records(&to).len(), 80);
}

/// The limits also hold if all logs write at once.
#[test]
fn a_burst_keeps_within_the_limit_of_descriptors() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("made");
    let paths: Vec<_> = (0..LOGS).map(|n| dir.path().join(n.to_string())).collect();
    let before = descriptors();
    let limits = EnvironmentOptions::new()
        .threads(THREADS)
        .open_logs(OPEN_LOGS);
    let environment = logforce::environment(&limits).expect("threads start");
    let logs = open(&paths, &environment);
    let (done, highest) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                highest.fetch_max(descriptors(), SeqCst);
            }
        });
        for round in 0..10 {
            let submitted = logs
                .iter()
                .map(|log| log.submit(record(round, 300), Policy::Force));
            let handles: Vec<_> = submitted.map(|h| h.expect("accepted")).collect();
            for handle in handles {
                handle.wait().expect("durable");
            }
        }
        done.store(true, SeqCst);
    });
    let highest = highest.into_inner() - before;
    // The sum of the locks, the files of logs that may have some open, the files of logs that threads are
    // writing, and the descriptors for listing `/proc`.
    let most = LOGS + 3 * (OPEN_LOGS + THREADS + 1) + 2 * THREADS + 2;
    println!("{highest} descriptors, at most {most}");
    assert!(highest <= most, "{highest} descriptors, at most {most}");
}

/// If there are fewer descriptors than the limits allow, logs return theirs, and no call fails.
#[test]
fn too_few_descriptors_for_the_limits() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let _alone = alone();
    let dir = tempfile::tempdir().expect("made");
    let paths: Vec<_> = (0..LOGS).map(|n| dir.path().join(n.to_string())).collect();
    let before = getrlimit(Resource::Nofile);
    // A lock for each log, and less than the files of sixteen that are opened at once: some have to wait, also for
    // their first read past the cache.
    let few = (descriptors() + LOGS + 30) as u64;
    let limit = rustix::process::Rlimit {
        current: Some(few),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("lowered");
    let environment = logforce::environment(&EnvironmentOptions::new()).expect("threads start");
    let logs = open(&paths, &environment);
    for round in 0..3 {
        let submitted = logs
            .iter()
            .map(|log| log.submit(record(round, 300), Policy::Force));
        let handles: Vec<_> = submitted.map(|h| h.expect("accepted")).collect();
        for handle in handles {
            handle.wait().expect("durable");
        }
    }
    logs.into_iter()
        .for_each(|log| log.close().expect("closed"));
    setrlimit(Resource::Nofile, before).expect("as it was");
}

/// Moving a directory away while its log's files are closed loses nothing, and no error reports a loss.
#[test]
fn a_directory_that_is_moved_while_its_log_is_idle() {
    let _alone = alone();
    for leave_another in [false, true] {
        let dir = tempfile::tempdir().expect("made");
        let (path, away) = (dir.path().join("log"), dir.path().join("away"));
        let environment = logforce::environment(&EnvironmentOptions::new()).expect("started");
        let log = logforce::create_new(&path, options(&environment)).expect("made");
        let at = log.commit(b"here").expect("durable");
        until("idle", &environment, || {
            environment.stats().logs_with_open_files == 0
        });
        std::fs::rename(&path, &away).expect("moved");
        if leave_another {
            std::fs::create_dir(&path).expect("made");
        }
        let e = log.read_at(at.start).expect_err("it is not there");
        assert_eq!(e.kind(), ErrorKind::Displaced, "{e}");
        let e = log.commit(b"where?").expect_err("it is not there");
        assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
        assert!(e.to_string().contains("moved away"), "{e}");
        drop(log);
        let log = logforce::open_existing(&away, options(&environment)).expect("whole");
        assert_eq!(records(&log), [b"here"]);
    }
}

/// Returns the bytes that the files below a directory occupy on the disk.
fn on_disk(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).expect("listed").flatten();
    entries
        .map(|e| match e.metadata().expect("there") {
            found if found.is_dir() => on_disk(&e.path()),
            found => found.blocks() * 512,
        })
        .sum()
}

/// Prints the figures of the guide, for `LOGFORCE_LOGS` logs.
#[test]
#[ignore = "prints figures, and takes minutes"]
fn figures_for_the_guide() {
    let _alone = alone();
    common::unlimited_descriptors();
    let count = std::env::var("LOGFORCE_LOGS").map_or(10_000, |n| n.parse().expect("a number"));
    for first in [256 << 10, 128 << 10, 64 << 10] {
        let dir = tempfile::tempdir().expect("made");
        let paths: Vec<_> = (0..count)
            .map(|n| dir.path().join(format!("{n}")))
            .collect();
        let environment = logforce::environment(&EnvironmentOptions::new()).expect("it starts");
        let options = options(&environment).first_segment_size(first);
        let open = || {
            let began = Instant::now();
            let logs = options.clone().create(true).open_many(&paths);
            let logs: Vec<Log> = logs.into_iter().map(|log| log.expect("it opens")).collect();
            (logs, began.elapsed())
        };
        let (logs, created) = open();
        for (n, log) in logs.iter().enumerate() {
            log.commit(record(n as u64, 100)).expect("durable");
        }
        let each = on_disk(dir.path()) / count as u64;
        let began = Instant::now();
        assert_eq!(environment.close_all().len(), 0);
        let at_once = began.elapsed();
        drop(logs);
        let (logs, opened) = open();
        let began = Instant::now();
        for log in logs {
            log.close().expect("it closes");
        }
        println!(
            "{count} logs of {} KiB segments at first: {} KiB each; made in {created:.1?}, opened in \
             {opened:.1?}, closed at once in {at_once:.1?}, one by one in {:.1?}",
            first >> 10,
            each >> 10,
            began.elapsed(),
        );
    }
}
