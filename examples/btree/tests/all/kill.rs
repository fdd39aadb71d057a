//! Kill -9 of a process whose threads put keys: every acknowledged put survives.

use crate::common::{Map, open_real, shown};
use logforce::pages::Options;
use logforce_testkit::process::{Start, same_test};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Environment variable of the second process, with the directory of its tree.
const DIR: &str = "LOGFORCE_BTREE_CHILD";
const THREADS: u64 = 4;
const KEYS: u64 = 200;

fn key(thread: u64, n: u64) -> String {
    format!("{thread}-{:04}", n % KEYS)
}

/// Returns a value; some are so long that they need a chain of pages.
fn value(thread: u64, n: u64) -> Vec<u8> {
    let len = match n % 50 {
        0 => 40_000,
        _ => 8 + n as usize % 90,
    };
    let mut value = n.to_le_bytes().to_vec();
    value.resize(len.max(8), thread as u8);
    value
}

fn options() -> Options {
    Options::new().checkpoint_distance(4 << 20)
}

/// Puts keys in the second process until it is killed.
fn put_until_killed(dir: &Path) {
    let tree = open_real(dir, options());
    // Each thread continues after the largest number found.
    let begin = shown(&tree.snapshot().unwrap())
        .values()
        .map(|v| number(v))
        .max();
    let begin = begin.map_or(0, |n| n + 1);
    // Ends the line that the test runner has started.
    println!();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                for n in begin.. {
                    tree.put(key(thread, n), value(thread, n)).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "put {thread} {n}")
                        .and_then(|()| out.flush())
                        .unwrap();
                }
            });
        }
    });
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    if let Some(dir) = std::env::var_os(DIR) {
        put_until_killed(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tree");
    // Thread and last acknowledged number, by key.
    let mut acknowledged = std::collections::BTreeMap::new();
    for round in 0..6u64 {
        // Runs this test again, alone and with the variable set.
        let mut child = Command::new(std::env::current_exe().unwrap());
        same_test(
            &mut child,
            "what_was_acknowledged_is_there_after_a_kill",
            DIR,
            &path,
        );
        let mut child = child.stdout(Stdio::piped()).start().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut puts = 0;
        for line in out.lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let ["put", thread, n] = words[..] else {
                continue;
            };
            // A line cut off by the kill does not count as an acknowledgement.
            let (Ok(thread), Ok(n)) = (thread.parse::<u64>(), n.parse::<u64>()) else {
                continue;
            };
            acknowledged.insert(key(thread, n), (thread, n));
            puts += 1;
            if puts == 200 + 150 * round {
                std::thread::sleep(Duration::from_millis(round));
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(puts >= 200, "the child ended after {puts} puts");
        let tree = open_real(&path, options());
        let shown: Map = shown(&tree.snapshot().unwrap());
        for (key, (thread, n)) in &acknowledged {
            let found = shown.get(key.as_bytes()).map(|v| number(v));
            assert!(
                found.is_some_and(|found| found >= *n),
                "{key}: {n} was acknowledged, {found:?} is there"
            );
            // The value is complete, whichever it is.
            assert!(shown[key.as_bytes()] == value(*thread, found.unwrap_or(*n)));
        }
        tree.close().unwrap();
    }
}
