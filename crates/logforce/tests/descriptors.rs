//! Logs of any length need few descriptors. This test is a separate program, because the limit belongs to the
//! process.
#![cfg(unix)]

#[path = "all/common/mod.rs"]
mod common;

use common::{limit_descriptors, record, sized, temp};
use logforce::{Guarantee, Log, Lsn, inspect::Visit};

/// Number of descriptors that a host program may have left for a log.
const DESCRIPTORS: u64 = 64;
/// Number of segments: eight times the number of descriptors.
const SEGMENTS: usize = 500;

/// A process that may have 64 files open writes, follows, reads, inspects, truncates and reopens a log of 500
/// segments. Earlier versions kept two files open for each written segment, and one for each segment of a
/// reader.
#[test]
fn five_hundred_segments_in_64_descriptors() {
    let dir = temp();
    let path = dir.path().join("log");
    limit_descriptors(DESCRIPTORS);
    // Proves that the limit is in force: this many files cannot be opened.
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
        // Some records are not forced for a while. The number of files that wait for a barrier is limited,
        // too.
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
    // Reads in an order that no cache of files could predict.
    for i in (0..written.len()).rev().step_by(37) {
        assert_eq!(
            log.read_at(written[i]).unwrap().data,
            record(i as u64, 12 << 10)
        );
    }
    // Opens the log for reading and for following, while this process writes it.
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
