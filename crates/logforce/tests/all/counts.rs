//! Number of system calls and flushes of a commit, for each way to commit. Unlike times, these counts are the
//! same on every machine.

use crate::common::*;
use logforce::replica::ReplicaOptions;
use logforce::{Log, Method, Options, Tuning};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

const DIR: &str = "LOGFORCE_TEST_DIR";
const METHOD: &str = "LOGFORCE_TEST_METHOD";
const COMMITS: usize = 1000;
const BEGIN: &str = "/logforce-test-begins";
const WAY: &str = "LOGFORCE_TEST_WAY";
const LIVE: &str = "LOGFORCE_TEST_LIVE";
const END: &str = "/logforce-test-ends";

/// Options with prepared space for all commits. The commits use less than half of a segment, so the log
/// prepares no other one. The log's background thread writes no stamps and no statistics meanwhile.
fn roomy(method: Method) -> Options {
    options()
        .segment_size(16 << 20)
        .tuning(Tuning::new().idle_stamp(Duration::MAX).live_stats(false))
        .method(method)
}

fn open_and_wait(dir: &Path, options: Options) -> Log {
    let log = logforce::create_new(dir, options).unwrap();
    log.commit(b"the first").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    log
}

/// Number of system calls of one check that the log still exists: of directory, control file, lock and
/// segment.
const LOOK: usize = 4;

fn is_look(call: &str) -> bool {
    ["stat(", "statx(", "newfstatat("]
        .iter()
        .any(|c| call.starts_with(c))
}

/// Returns the thread that made the first mark.
fn committing_thread(trace: &str) -> &str {
    let who = trace.lines().find(|l| l.contains(BEGIN)).unwrap();
    who.split_whitespace().next().unwrap()
}

/// Returns the system calls of all threads between the two marks, each with its thread.
fn calls_between(trace: &str) -> Vec<(&str, &str)> {
    let mut calls: Vec<&str> = trace
        .lines()
        .skip_while(|l| !l.contains(BEGIN))
        .skip(1)
        .take_while(|l| !l.contains(END))
        .collect();
    // A mark that was interrupted by another thread's call has a second line.
    calls.retain(|l| !l.contains("resumed>"));
    calls
        .into_iter()
        .filter_map(|l| l.split_once(' '))
        .map(|(thread, call)| (thread, call.trim_start()))
        .filter(|(_, call)| !call.starts_with("---"))
        .collect()
}

#[test]
fn system_calls_of_a_commit() {
    if let Some(dir) = in_second_process(DIR) {
        let method = Method::from_str(&std::env::var(METHOD).unwrap()).unwrap();
        let live = std::env::var(LIVE).is_ok();
        let way = Way::named(&std::env::var(WAY).unwrap());
        let log = open_and_wait(&dir, roomy(method).tuning(Tuning::new().live_stats(live)));
        let begun = way.begin(&log);
        let _ = std::fs::metadata(BEGIN);
        for _ in 0..COMMITS {
            way.make_durable(&log, b"one coffee, 2.50");
        }
        let _ = std::fs::metadata(END);
        drop(begun);
        log.close().unwrap();
        return;
    }
    if !traces() {
        logforce_testkit::skip!("strace is not here, or may not trace");
        return;
    }
    let home = temp();
    let all = methods(home.path());
    for (method, way) in all.into_iter().flat_map(|m| Way::ALL.map(|w| (m, w))) {
        let what = format!("{method}-{}", way.name());
        let dir = home.path().join(&what);
        let began = Instant::now();
        let trace = traced(&dir, method, way, false);
        let took = began.elapsed();
        let mut counts = BTreeMap::new();
        // The log's background thread checks at most twice a second, by the clock, that the log still exists.
        // The committing thread wakes it only if it sleeps until the next append.
        let who = committing_thread(&trace);
        let (mine, others): (Vec<_>, Vec<_>) = calls_between(&trace)
            .into_iter()
            .partition(|(thread, _)| *thread == who);
        let looks = others.iter().filter(|(_, c)| is_look(c)).count();
        let most = LOOK * (2 + 2 * took.as_secs() as usize);
        assert!(looks <= most, "{what}: {looks} calls, {most} expected");
        let idle = |call: &str| is_look(call) || call.contains("futex") || call.contains("restart");
        let more: Vec<_> = others.iter().filter(|(_, c)| !idle(c)).collect();
        assert!(more.is_empty(), "{what}: {more:?}");
        for (_, call) in mine {
            let name = call.split('(').next().unwrap_or_default();
            let durable = if call.contains("RWF_DSYNC") {
                "+DSYNC"
            } else {
                ""
            };
            *counts.entry(format!("{name}{durable}")).or_insert(0) += 1;
        }
        println!("{what}, {COMMITS} commits: {counts:?}");
        let expected: &[&str] = match method {
            Method::Buffered | Method::Direct => &["pwrite64"],
            Method::Fsync => &["pwrite64", "fsync"],
            Method::Fdatasync | Method::DirectFdatasync => &["pwrite64", "fdatasync"],
            Method::Dsync | Method::DirectDsync => &["pwritev2+DSYNC"],
            other => panic!("{other} is new: what should it cost?"),
        };
        for call in expected {
            assert_eq!(counts.remove(*call), Some(COMMITS), "{what}: {call}");
        }
        let woken = counts.remove("futex").unwrap_or_default();
        // The log's background thread sleeps until the next append if there was none for 50 ms. So each pause
        // of the machine costs one more wake, but a commit costs none.
        let most = (1 + took.as_millis() as usize / 50).min(COMMITS / 4);
        assert!(woken <= most, "{what}: {woken} wakes in {took:?}");
        // A single thread wakes no other and waits for none.
        assert_eq!(
            counts,
            BTreeMap::new(),
            "{what}: calls besides {expected:?}"
        );
    }
}

/// Number of truncations of the test below.
const TRUNCATIONS: usize = 50;

/// Runs `work` in a second process between the marks, and returns the calls of its thread, by name. `None` if
/// calls cannot be traced here.
fn calls_of(test: &str, work: impl FnOnce(&Path)) -> Option<BTreeMap<String, usize>> {
    if let Some(dir) = in_second_process(DIR) {
        work(&dir);
        return None;
    }
    if !traces() {
        logforce_testkit::skip!("strace is not here, or may not trace");
        return None;
    }
    let home = temp();
    let trace = traced_test(test, &home.path().join("log"), |_| {});
    let who = committing_thread(&trace);
    let mut counts = BTreeMap::new();
    for (thread, call) in calls_between(&trace) {
        let name = match call.contains("\"hold\"") {
            true => "hold",
            false => call.split('(').next().unwrap_or_default(),
        };
        // The allocator of the process grows sometimes.
        let is_memory = ["brk", "mmap", "mprotect", "munmap"].contains(&name);
        if thread == who && !is_memory && (name == "hold" || !is_look(call)) {
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    println!("{counts:?}");
    Some(counts)
}

/// A commit that waits for a replica makes the calls of any other one, and the replica one read for its chunk.
#[test]
fn system_calls_of_a_replicated_commit() {
    let counted = calls_of("system_calls_of_a_replicated_commit", |dir| {
        let log = open_and_wait(dir, roomy(Method::Dsync));
        let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
        let occupied = occupy_writer(&log);
        while replica.read(1 << 20).unwrap().is_some() {}
        let _ = std::fs::metadata(BEGIN);
        for _ in 0..COMMITS {
            commit_replicated(&log, &mut replica, b"one coffee, 2.50");
        }
        let _ = std::fs::metadata(END);
        drop(occupied);
        log.close().unwrap();
    });
    let Some(mut counts) = counted else { return };
    assert_eq!(counts.remove("pwritev2"), Some(COMMITS));
    assert_eq!(counts.remove("pread64"), Some(COMMITS));
    // Each pause of the machine costs a wake, a commit none.
    assert!(counts.remove("futex").unwrap_or_default() <= COMMITS / 4);
    assert_eq!(counts, BTreeMap::new());
}

/// Without a replica, a truncation looks once for the hold of one in another process, which is not there.
#[test]
fn system_calls_of_a_truncation() {
    let counted = calls_of("system_calls_of_a_truncation", |dir| {
        let log = open_and_wait(dir, roomy(Method::Dsync));
        let ends: Vec<_> = (0..TRUNCATIONS)
            .map(|_| log.commit(b"one coffee, 2.50").unwrap().end)
            .collect();
        let _ = std::fs::metadata(BEGIN);
        for end in ends {
            log.truncate_front(end).unwrap();
        }
        let _ = std::fs::metadata(END);
        log.close().unwrap();
    });
    let Some(counts) = counted else { return };
    assert_eq!(counts.get("hold"), Some(&TRUNCATIONS));
    assert!(!counts.contains_key("openat"), "{counts:?}");
}

/// With the page of statistics switched on, the committing thread makes the same calls. In addition it wakes
/// the log's background thread once, which writes the page at most once a second.
#[test]
fn statistics_cost_the_committing_thread_nothing() {
    if !traces() {
        logforce_testkit::skip!("strace is not here, or may not trace");
        return;
    }
    let home = temp();
    for method in [Method::Buffered, Method::Dsync] {
        // A busy machine adds calls by chance, and not in three runs. A call for each commit would show in
        // all.
        let within = (0..3).find_map(|attempt| {
            let dir = home.path().join(format!("{}-{attempt}", method.name()));
            calls_beside_statistics(&dir, method)
        });
        assert!(within.is_some(), "{method}: too many calls, three times");
    }
}

/// Checks which thread writes what with the page of statistics switched on. Returns `None` if the committing
/// thread made more calls than pauses of the machine explain.
fn calls_beside_statistics(dir: &Path, method: Method) -> Option<()> {
    let began = Instant::now();
    let trace = traced(dir, method, Way::Commit, true);
    let took = began.elapsed();
    let seconds = took.as_secs() as usize;
    let who = committing_thread(&trace);
    let between: Vec<&str> = trace
        .lines()
        .skip_while(|l| !l.contains(BEGIN))
        .skip(1)
        .take_while(|l| !l.contains(END))
        .filter(|l| !l.contains("resumed>"))
        .collect();
    let (mine, others): (Vec<&str>, Vec<&str>) = between
        .iter()
        .partition(|l| l.split_whitespace().next() == Some(who));
    let writes = |lines: &[&str]| lines.iter().filter(|l| l.contains("pwrite")).count();
    assert_eq!(writes(&mine), COMMITS, "{method}");
    let pages = writes(&others);
    assert!(pages <= seconds + 1, "{method}: {pages} in {seconds} s");
    let stats = logforce::inspect::open(dir)
        .unwrap()
        .live()
        .expect("a page");
    assert_eq!(stats.counters.records, COMMITS as u64 + 1);
    assert_eq!(stats.counters.commits_force, COMMITS as u64 + 1);
    // As above, each pause of the machine costs a wake.
    let most = COMMITS + (2 + took.as_millis() as usize / 50).min(COMMITS / 4);
    if mine.len() > most {
        eprintln!("{method}: {} in {took:?}", mine.len());
        return None;
    }
    Some(())
}

/// Returns true if system calls can be traced here.
fn traces() -> bool {
    let tried = Command::new("strace").args(["-f", "true"]).output();
    tried.is_ok_and(|o| o.status.success())
}

/// Traces the second process of `system_calls_of_a_commit`, and returns the trace.
fn traced(dir: &Path, method: Method, way: Way, live: bool) -> String {
    traced_test("system_calls_of_a_commit", dir, |strace| {
        strace.env(METHOD, method.name()).env(WAY, way.name());
        if live {
            strace.env(LIVE, "1");
        }
    })
}

/// Traces the second process of a test, and returns the trace.
fn traced_test(test: &str, dir: &Path, set: impl FnOnce(&mut Command)) -> String {
    let trace = dir.with_extension("trace");
    let itself = again(test, DIR, dir);
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(itself.get_program())
        .args(itself.get_args())
        .env(DIR, dir);
    set(&mut strace);
    assert_passed(&strace.output().unwrap());
    std::fs::read_to_string(&trace).unwrap()
}

/// Returns the numbers of writes and flushes that the device has done.
fn done(device: &str) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
    let fields: Vec<u64> = stat
        .split_whitespace()
        .map(|f| f.parse().unwrap())
        .collect();
    (fields[4], fields[15])
}

#[test]
fn flushes_of_a_commit() {
    const COMMITS: u64 = 150;
    for kind in ["ext4", "ext4-nojournal", "xfs"] {
        let home = temp();
        let Some(fs) = loop_fs(kind, 320, &home) else {
            continue;
        };
        let queue = format!("/sys/block/{}/queue", fs.device());
        let fua = std::fs::read_to_string(format!("{queue}/fua")).unwrap();
        let per_commit = u64::from(fua.trim() == "0");
        let all = methods(fs.path());
        for (method, way) in all.into_iter().flat_map(|m| Way::ALL.map(|w| (m, w))) {
            let flushes = match method {
                Method::Buffered | Method::Direct => 0,
                // A write-through without FUA is a write and a flush. With FUA there is no flush.
                Method::DirectDsync => per_commit,
                _ => 1,
            };
            let dir = fs.path().join(method.name());
            let log = open_and_wait(&dir, roomy(method));
            let begun = way.begin(&log);
            // Writes back what the preparation has left in the page cache.
            rustix::fs::sync();
            let before = done(fs.device());
            let began = Instant::now();
            for _ in 0..COMMITS {
                way.make_durable(&log, b"one coffee, 2.50");
            }
            let after = done(fs.device());
            let (writes, flushed) = (after.0 - before.0, after.1 - before.1);
            println!(
                "{kind}, {method}, {way:?}, {COMMITS} commits: {writes} writes, {flushed} flushes"
            );
            // The filesystem's timer (every five seconds for ext4) may flush twice. That adds a few flushes,
            // not one for each commit.
            let timer = 8 + 2 * began.elapsed().as_secs() / 5;
            let expected = flushes * COMMITS..=flushes * COMMITS + timer;
            if method != Method::Fsync {
                // A full sync also writes the time of change. Its cost depends on the filesystem.
                assert!(
                    expected.contains(&flushed),
                    "{kind} {method} {way:?}: {flushed} flushes"
                );
            }
            // Without a journal a sync also writes the inode in place.
            if method.plan().direct && kind != "ext4-nojournal" {
                // A flush may be counted as a write, too.
                let expected = COMMITS..=COMMITS + flushed + 40;
                assert!(
                    expected.contains(&writes),
                    "{kind} {method} {way:?}: {writes} writes"
                );
            }
            drop(begun);
            drop(log);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}
