//! One writer at a time, in this process or another; and logs of killed processes.

use crate::common::*;
use logforce::ErrorKind;
use logforce_testkit::process::Start;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

const DIR: &str = "LOGFORCE_TEST_DIR";

#[test]
fn a_second_opener_in_the_same_process() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for open in [
        |p: &Path| logforce::open_existing(p, options()),
        |p: &Path| logforce::open_or_create(p, options()),
    ] {
        let words = [dir.path().to_str().unwrap(), "only one writer at a time"];
        let e = assert_error(open(dir.path()), ErrorKind::Locked, &words);
        assert_eq!(e.path(), Some(dir.path()));
    }
    // Inspection is not an opening for writing.
    assert!(
        logforce::inspect::open(dir.path())
            .unwrap()
            .summary()
            .in_use
    );
    log.commit(b"the first goes on").unwrap();
    drop(log);
    assert!(
        !logforce::inspect::open(dir.path())
            .unwrap()
            .summary()
            .in_use
    );
    logforce::open_existing(dir.path(), options()).unwrap();
}

#[test]
fn of_many_openers_at_once_one_wins() {
    for _ in 0..20 {
        let dir = temp();
        let logs: Vec<_> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..6)
                .map(|_| s.spawn(|| logforce::open_or_create(dir.path(), options())))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(logs.iter().filter(|l| l.is_ok()).count(), 1);
        for e in logs.into_iter().filter_map(Result::err) {
            assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
        }
    }
}

/// Starts the test `name` in a second process on `dir`. Reads its lines up to `until`, and returns them.
fn start(name: &str, dir: &Path, until: &str) -> (Killed, BufReader<impl Read>, Vec<String>) {
    let mut child = again(name, DIR, dir)
        .stdout(Stdio::piped())
        .start()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let child = Killed(child);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended: {lines:?}");
        if line.trim_end() == until {
            return (child, out, lines);
        }
        lines.push(line);
    }
}

#[test]
fn a_second_opener_in_another_process_and_a_killed_holder() {
    let name = "a_second_opener_in_another_process_and_a_killed_holder";
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::open_or_create(dir, options()).unwrap();
        log.commit(b"held").unwrap();
        tell("\nopen");
        std::thread::sleep(std::time::Duration::from_secs(600));
        drop(log);
        return;
    }
    let dir = temp();
    for round in 1..=3 {
        let (mut child, _out, _) = start(name, dir.path(), "open");
        let words = [dir.path().to_str().unwrap(), "only one writer at a time"];
        let second = logforce::open_existing(dir.path(), options());
        assert_error(second, ErrorKind::Locked, &words);
        assert!(
            logforce::inspect::open(dir.path())
                .unwrap()
                .summary()
                .in_use
        );
        // A live process keeps the lock, a killed one does not.
        child.kill();
        let log = logforce::open_existing(dir.path(), options()).unwrap();
        assert!(!log.recovered().clean);
        assert_eq!(read_all(&log).len(), round);
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_under_every_method() {
    commit_until_killed();
    let name = "what_was_acknowledged_survives_a_kill_under_every_method";
    let home = temp();
    for method in methods(home.path()) {
        survives_kills(name, &home.path().join(method.name()), method);
    }
}

#[test]
fn inspecting_beside_a_writer() {
    let name = "inspecting_beside_a_writer";
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::open_or_create(dir, options()).unwrap();
        tell("\nopen");
        for n in 0.. {
            let at = log.commit(&record(n, 9000)).unwrap();
            if n % 20 == 19 {
                log.truncate_front(at.start).unwrap();
            }
        }
    }
    let dir = temp();
    let (mut child, _out, _) = start(name, dir.path(), "open");
    for _ in 0..20 {
        let seen = logforce::inspect::open(dir.path()).unwrap();
        assert!(seen.summary().in_use);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill();
    let seen = logforce::inspect::open(dir.path()).unwrap();
    let found = seen.walk(&mut |_| true).unwrap();
    assert_eq!(found.damages, 0, "{found:?}");
    assert!(!seen.summary().in_use && !seen.summary().clean);
    logforce::open_existing(dir.path(), options()).unwrap();
}

/// An inspector that began without a writer reports no damage when a writer opens the log and recycles its
/// segments.
#[test]
fn a_writer_comes_beneath_an_inspector() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..40 {
        log.commit(&record(n, 9000)).unwrap();
    }
    drop(log);
    let seen = logforce::inspect::open(dir.path()).unwrap();
    assert!(!seen.summary().in_use && seen.summary().segments.len() > 2);
    let mut writer = None;
    let mut damage = Vec::new();
    let found = seen
        .walk(&mut |visit| {
            if let logforce::inspect::Visit::Damage(d) = visit {
                damage.push(d.to_string());
            }
            if writer.is_none() {
                let log = logforce::open_existing(dir.path(), options()).unwrap();
                for n in 0..100 {
                    let at = log.commit(&record(n, 9000)).unwrap();
                    if n % 10 == 9 {
                        log.truncate_front(at.start).unwrap();
                    }
                }
                writer = Some(log);
            }
            true
        })
        .unwrap();
    assert_eq!(damage, [""; 0], "{found:?}");
    assert_eq!(found.damages, 0);
}
