//! How many calls and flushes a commit costs. Counts, no times: they are the same on every machine.
#![cfg(target_os = "linux")]

mod common;

use common::*;
use logforce::{Log, Method, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

const DIR: &str = "LOGFORCE_TEST_DIR";
const METHOD: &str = "LOGFORCE_TEST_METHOD";
const COMMITS: usize = 1000;
const BEGIN: &str = "/logforce-test-begins";
const END: &str = "/logforce-test-ends";

/// Prepared space for all commits, and no stamp or statistics of the log's own thread in between.
fn roomy(method: Method) -> Options {
    options()
        .segment_len(8 << 20)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
        .method(method)
}

fn open_and_settle(dir: &Path, method: Method) -> Log {
    let log = logforce::create_new(dir, roomy(method)).unwrap();
    log.commit(b"the first").unwrap();
    // The next segment is prepared in the background: not while we count.
    while segments(dir).len() < 2 || !with_suffix(dir, ".tmp").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    log
}

/// The system calls of all threads between the two marks.
fn calls_between(trace: &str) -> Vec<&str> {
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
        .map(|l| l.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        .filter(|l| !l.starts_with("---"))
        .collect()
}

#[test]
fn system_calls_of_a_commit() {
    if let Some(dir) = told(DIR) {
        let method = Method::from_str(&std::env::var(METHOD).unwrap()).unwrap();
        let log = open_and_settle(&dir, method);
        let _ = std::fs::metadata(BEGIN);
        for _ in 0..COMMITS {
            log.commit(b"one coffee, 2.50").unwrap();
        }
        let _ = std::fs::metadata(END);
        log.close().unwrap();
        return;
    }
    if !Command::new("strace")
        .args(["-f", "true"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        println!("skipped: strace is not here, or may not trace");
        return;
    }
    let home = temp();
    for method in methods(home.path()) {
        let trace = home.path().join("trace");
        let dir = home.path().join(method.name());
        let itself = again("system_calls_of_a_commit", DIR, &dir);
        let output = Command::new("strace")
            .args(["-f", "-qq", "-o"])
            .arg(&trace)
            .arg(itself.get_program())
            .args(itself.get_args())
            .env(DIR, &dir)
            .env(METHOD, method.name())
            .output()
            .unwrap();
        assert_passed(&output);
        let trace = std::fs::read_to_string(&trace).unwrap();
        let mut counts = BTreeMap::new();
        for call in calls_between(&trace) {
            let name = call.split('(').next().unwrap_or_default();
            let durable = if call.contains("RWF_DSYNC") {
                "+DSYNC"
            } else {
                ""
            };
            *counts.entry(format!("{name}{durable}")).or_insert(0) += 1;
        }
        println!("{method}, {COMMITS} commits: {counts:?}");
        let expected: &[&str] = match method {
            Method::Buffered | Method::Direct => &["pwrite64"],
            Method::Fsync => &["pwrite64", "fsync"],
            Method::Fdatasync | Method::DirectFdatasync => &["pwrite64", "fdatasync"],
            Method::Dsync | Method::DirectDsync => &["pwritev2+DSYNC"],
            other => panic!("{other} is new: what should it cost?"),
        };
        for call in expected {
            assert_eq!(counts.remove(*call), Some(COMMITS), "{method}: {call}");
        }
        // One thread has nobody to wake or to wait for.
        assert_eq!(
            counts,
            BTreeMap::new(),
            "{method}: calls besides {expected:?}"
        );
    }
}

/// Writes and flushes that the device has done.
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
    const COMMITS: u64 = 500;
    for kind in ["ext4", "ext4-nojournal", "xfs"] {
        let home = temp();
        let Some(fs) = loop_fs(kind, 320, &home) else {
            continue;
        };
        let queue = format!("/sys/block/{}/queue", fs.device());
        let fua = std::fs::read_to_string(format!("{queue}/fua")).unwrap();
        let per_commit = u64::from(fua.trim() == "0");
        for method in methods(fs.path()) {
            let flushes = match method {
                Method::Buffered | Method::Direct => 0,
                // A write through without FUA is a write and a flush; with it there is no flush.
                Method::DirectDsync => per_commit,
                _ => 1,
            };
            let dir = fs.path().join(method.name());
            let log = open_and_settle(&dir, method);
            // What the preparation left to be written back is written now.
            rustix::fs::sync();
            let before = done(fs.device());
            for _ in 0..COMMITS {
                log.commit(b"one coffee, 2.50").unwrap();
            }
            let after = done(fs.device());
            let (writes, flushed) = (after.0 - before.0, after.1 - before.1);
            println!("{kind}, {method}, {COMMITS} commits: {writes} writes, {flushed} flushes");
            // The filesystem's own timer may come by: a few more, not one for each commit.
            let expected = flushes * COMMITS..=flushes * COMMITS + 8;
            if method != Method::Fsync {
                // A full sync also writes the time of change; what that costs is the filesystem's.
                assert!(
                    expected.contains(&flushed),
                    "{kind} {method}: {flushed} flushes"
                );
            }
            // Without a journal a sync writes the inode in place as well.
            if method.plan().direct && kind != "ext4-nojournal" {
                // A flush may be counted as a write, too.
                let expected = COMMITS..=COMMITS + flushed + 40;
                assert!(
                    expected.contains(&writes),
                    "{kind} {method}: {writes} writes"
                );
            }
            drop(log);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}
