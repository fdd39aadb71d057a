//! Many threads on one log: writers, readers, truncation, recycling.

use crate::common::*;
use logforce::{Batch, ErrorKind, Lsn};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

/// Returns record number `n` of thread `t`.
fn of(t: u64, n: u64, len: usize) -> Vec<u8> {
    [&t.to_le_bytes()[..], &record(n, len)].concat()
}

fn parse(data: &[u8]) -> (u64, u64) {
    let word = |i: usize| u64::from_le_bytes(data[i..i + 8].try_into().unwrap());
    let (t, n) = (word(0), word(8));
    assert_eq!(data, of(t, n, data.len() - 8));
    (t, n)
}

#[test]
fn every_commit_of_many_threads_is_there_in_its_threads_order() {
    const THREADS: u64 = 12;
    const EACH: u64 = 60;
    let home = temp();
    for method in methods(home.path()) {
        let dir = home.path().join(method.name());
        let options = options().method(method);
        let log = logforce::create_new(&dir, options.clone()).unwrap();
        let places = Mutex::new(Vec::new());
        thread::scope(|s| {
            for t in 0..THREADS {
                let (log, places) = (&log, &places);
                s.spawn(move || {
                    for n in 0..EACH {
                        let data = of(t, n, 10 + (n as usize * 97 + t as usize * 13) % 4000);
                        let at = match n % 4 {
                            0 => {
                                let at = log
                                    .append(Batch::new().push_parts(&[&data[..9], &data[9..]]))
                                    .unwrap();
                                log.force(at.end).unwrap();
                                (at.start, at.end)
                            }
                            1 => {
                                let at = log.commit(Batch::of(&[&data])).unwrap();
                                (at.start, at.end)
                            }
                            _ => {
                                let at = log.commit(&data).unwrap();
                                (at.start, at.end)
                            }
                        };
                        assert!(log.durable_lsn() >= at.1);
                        assert_eq!(log.read_at(at.0).unwrap().data, data);
                        places.lock().unwrap().push((at.0, t, n));
                    }
                });
            }
        });
        log.close().unwrap();
        let log = logforce::open_existing(&dir, options).unwrap();
        let mut places = places.into_inner().unwrap();
        places.sort();
        let found: Vec<(Lsn, u64, u64)> = log
            .read_from(log.front_lsn())
            .unwrap()
            .map(|e| {
                let e = e.unwrap();
                let (t, n) = parse(&e.data);
                (e.start, t, n)
            })
            .collect();
        assert_eq!(found, places, "{method}");
        let mut next = HashMap::new();
        for (_, t, n) in found {
            let expected = next.entry(t).or_insert(0);
            assert_eq!(n, *expected, "{method}: thread {t}");
            *expected += 1;
        }
    }
}

#[test]
fn durable_lsn_only_rises_and_readers_see_only_what_is_below() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    let done = AtomicBool::new(false);
    let acknowledged = AtomicU64::new(0);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut last = Lsn::ORIGIN;
                while !done.load(Relaxed) {
                    let known = acknowledged.load(SeqCst);
                    let now = log.durable_lsn();
                    assert!(now >= last && now.0 >= known, "{now} {last} {known}");
                    last = now;
                }
            });
        }
        s.spawn(|| {
            // One reader reads from the front to the end.
            let mut reader = log.read_from(log.front_lsn()).unwrap();
            let mut seen = 0;
            while seen < 400 {
                match reader.next() {
                    Some(found) => {
                        let found = found.unwrap();
                        assert!(found.end <= log.durable_lsn());
                        assert!(found.data == record(seen, 3000), "record {seen}");
                        seen += 1;
                    }
                    None => thread::yield_now(),
                }
            }
        });
        for n in 0..400 {
            let at = log.commit(&record(n, 3000)).unwrap();
            acknowledged.fetch_max(at.end.0, SeqCst);
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn readers_while_truncating_and_recycling_get_records_or_truncated() {
    let home = temp();
    for method in methods(home.path()) {
        let dir = home.path().join(method.name());
        let log = logforce::create_new(&dir, options().method(method)).unwrap();
        let done = AtomicBool::new(false);
        let last = Mutex::new((0, log.front_lsn()));
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut overtaken = 0u32;
                    while !done.load(Relaxed) {
                        let reader = match log.read_from(log.front_lsn()) {
                            Ok(reader) => reader,
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::Truncated, "{method}: {e}");
                                continue;
                            }
                        };
                        let mut expected = None;
                        for found in reader {
                            match found {
                                Ok(found) => {
                                    let n = u64::from_le_bytes(found.data[..8].try_into().unwrap());
                                    assert!(found.data == record(n, 9000), "{method}: record {n}");
                                    assert!(expected.is_none_or(|x| x == n), "{method}: a gap");
                                    expected = Some(n + 1);
                                }
                                Err(e) => {
                                    assert_eq!(e.kind(), ErrorKind::Truncated, "{method}: {e}");
                                    overtaken += 1;
                                }
                            }
                        }
                        // Reads a single position.
                        let (n, at) = *last.lock().unwrap();
                        match log.read_at(at) {
                            Ok(found) => assert!(found.data == record(n, 9000)),
                            Err(e) => assert!(
                                matches!(
                                    e.kind(),
                                    ErrorKind::Truncated
                                        | ErrorKind::BeyondEnd
                                        | ErrorKind::InvalidInput
                                ) && (n == 0 || e.kind() == ErrorKind::Truncated),
                                "{method}: {e}"
                            ),
                        }
                    }
                    println!("{method}: overtaken {overtaken} times");
                });
            }
            for n in 0..400 {
                let at = log.commit(&record(n, 9000)).unwrap();
                *last.lock().unwrap() = (n, at.start);
                if n % 7 == 6 {
                    log.truncate_front(at.start).unwrap();
                }
            }
            done.store(true, Relaxed);
        });
        log.close().unwrap();
    }
}

#[test]
fn truncating_at_both_ends_while_others_append() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    let done = AtomicBool::new(false);
    let front = Mutex::new(log.front_lsn());
    thread::scope(|s| {
        for t in 0..3 {
            let (log, done, front) = (&log, &done, &front);
            s.spawn(move || {
                let mut n = 0;
                while !done.load(Relaxed) {
                    let at = log.commit(&of(t, n, 5000)).unwrap();
                    n += 1;
                    if t == 0 && n % 10 == 0 {
                        let mut front = front.lock().unwrap();
                        *front = at.end;
                    }
                }
            });
        }
        for round in 0..60 {
            let to = *front.lock().unwrap();
            if round % 2 == 0 {
                match log.truncate_front(to) {
                    Ok(()) => assert!(log.front_lsn() >= to),
                    // The record was voided meanwhile.
                    Err(e) => assert!(
                        matches!(e.kind(), ErrorKind::Voided | ErrorKind::Truncated),
                        "{e}"
                    ),
                }
            } else {
                let at = log.commit(b"mark").unwrap();
                log.truncate_back(at.start).unwrap();
                assert_eq!(log.read_at(at.start).unwrap_err().kind(), ErrorKind::Voided);
            }
        }
        done.store(true, Relaxed);
    });
    let before: Vec<_> = log
        .read_from(log.front_lsn())
        .unwrap()
        .map(|e| e.unwrap())
        .collect();
    let first = log.front_lsn();
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    let after: Vec<_> = log.read_from(first).unwrap().map(|e| e.unwrap()).collect();
    assert!(before == after, "{} and {}", before.len(), after.len());
}

#[test]
fn closing_while_others_commit_and_truncate_loses_nothing() {
    for seed in 0..12 {
        let dir = temp();
        let log = logforce::create_new(dir.path(), options()).unwrap();
        let acknowledged = Mutex::new(Vec::new());
        thread::scope(|s| {
            for t in 0..3 {
                let (log, acknowledged) = (log.clone(), &acknowledged);
                s.spawn(move || {
                    for n in 0.. {
                        match log.commit(&of(t, n, 2000)) {
                            Ok(at) => acknowledged.lock().unwrap().push((at.start, t, n)),
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                                return;
                            }
                        }
                    }
                });
            }
            let truncating = log.clone();
            s.spawn(move || {
                loop {
                    let front = truncating.durable_lsn();
                    if let Err(e) = truncating.truncate_front(front) {
                        assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                        return;
                    }
                }
            });
            thread::sleep(std::time::Duration::from_millis(3 + 2 * seed));
            log.close().unwrap();
            // The lock is free at once, and no thread of the old opening writes any more.
            let log = logforce::open_existing(dir.path(), options()).unwrap();
            assert!(log.recovered().clean, "{:?}", log.recovered());
        });
        let log = logforce::open_existing(dir.path(), options()).unwrap();
        let found: Vec<(Lsn, u64, u64)> = log
            .read_from(log.front_lsn())
            .unwrap()
            .map(|e| e.unwrap())
            .map(|e| {
                let (t, n) = parse(&e.data);
                (e.start, t, n)
            })
            .collect();
        for a in acknowledged.into_inner().unwrap() {
            let gone = a.0 < log.front_lsn();
            assert!(gone || found.contains(&a), "{a:?} was acknowledged");
        }
    }
}
