//! A log of any length in few descriptors. Alone in its program: the limit is the process'.
#![cfg(unix)]

#[path = "all/common/mod.rs"]
mod common;

use common::{limit_descriptors, record, sized, temp};
use logforce::{Guarantee, Log, Lsn, inspect::Visit};

/// What a host program may have left for a log.
const DESCRIPTORS: u64 = 64;
/// Eight times as many as there are descriptors.
const SEGMENTS: usize = 500;

/// A log of 500 segments is written, followed, read, looked through, truncated and opened again
/// by a process that may have 64 files open. Before, the writer kept two for each segment it had
/// written, and a reader from end to end kept one for each.
#[test]
fn five_hundred_segments_in_64_descriptors() {
    let dir = temp();
    let path = dir.path().join("log");
    limit_descriptors(DESCRIPTORS);
    // The log's own proof that the limit is in force: this many files cannot be open.
    let taken: Vec<_> = (0..DESCRIPTORS)
        .map_while(|_| std::fs::File::open(dir.path()).ok())
        .collect();
    assert!((taken.len() as u64) < DESCRIPTORS);
    drop(taken);

    let options = || {
        sized(32 << 10)
            .max_batch_size(16 << 10)
            .buffer_size(64 << 10)
            .require(Guarantee::ProcessCrash)
    };
    let log = logforce::create_new(&path, options()).unwrap();
    let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
    let (mut written, mut followed) = (Vec::new(), 0);
    while segments(&path) < SEGMENTS {
        let n = written.len() as u64;
        // Appended without a force for a while, too: what waits for a barrier is bounded as well.
        let end = log.append(&record(n, 12 << 10)).unwrap();
        written.push(end.start);
        if n.is_multiple_of(64) {
            log.force(end.end).unwrap();
            while let Some(found) = follower.try_next().unwrap() {
                assert_eq!(found.data, record(followed, 12 << 10));
                followed += 1;
            }
        }
    }
    log.force(log.tail_lsn()).unwrap();
    read_all(&log, &written, 0);
    // In no order that any keeping of files would guess.
    for i in (0..written.len()).rev().step_by(37) {
        assert_eq!(
            log.read_at(written[i]).unwrap().data,
            record(i as u64, 12 << 10)
        );
    }
    // Another opening to look at it, while this one writes; and one that follows.
    let mut remote = logforce::read_only(&path)
        .unwrap()
        .follow_lsn(Lsn::ORIGIN)
        .unwrap();
    for i in 0..written.len() as u64 - 1 {
        let found = remote.next_blocking().unwrap().unwrap();
        assert_eq!(found.data, record(i, 12 << 10));
    }
    drop(remote);
    looked_through(&path, written.len());
    drop(log);

    looked_through(&path, written.len());
    let log = logforce::open_existing(&path, options()).unwrap();
    read_all(&log, &written, 0);
    let half = written.len() / 2;
    log.truncate_front(written[half]).unwrap();
    assert!(segments(&path) < SEGMENTS * 3 / 5);
    log.close().unwrap();

    let log = logforce::open_existing(&path, options()).unwrap();
    read_all(&log, &written, half);
    log.close().unwrap();
}

fn segments(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap();
    entries
        .filter(|e| {
            e.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|x| x == "seg")
        })
        .count()
}

fn read_all(log: &Log, written: &[Lsn], from: usize) {
    let mut n = from;
    for found in log.read_from(log.front_lsn()).unwrap() {
        let found = found.unwrap();
        assert_eq!(found.start, written[n]);
        assert_eq!(found.data, record(n as u64, 12 << 10));
        n += 1;
    }
    assert_eq!(n, written.len());
}

fn looked_through(path: &std::path::Path, records: usize) {
    let inspector = logforce::inspect::open(path).unwrap();
    let mut seen = 0;
    let found = inspector
        .walk(&mut |visit| {
            match visit {
                Visit::Record { .. } => seen += 1,
                Visit::Damage(what) => panic!("{what}"),
                Visit::Batch(_) | Visit::Part(_) => {}
            }
            true
        })
        .unwrap();
    assert_eq!((found.damages, seen), (0, records));
}
