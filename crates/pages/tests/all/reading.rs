//! Tests of repeated reads: pages that fit into memory are read without the device, and are correct however
//! often they change.

use crate::common::{MODES, PAGE, disk, open, options, page, with_file};
use logforce_device::Runtime;
use logforce_pages::{CommitMode, Error, PageFile, Transaction};
use logforce_testkit::{Rng, SimRuntime};
use std::sync::{Arc, Mutex};

/// Commits the pages 0 to `count`, each with a tag that follows from its number and `round`.
fn write(file: &PageFile, count: u64, round: u64) {
    let mut txn = file.begin().unwrap();
    for n in 0..count {
        txn.write(n, &page(round * 1000 + n)).unwrap();
    }
    txn.commit().unwrap();
}

fn check(file: &PageFile, count: u64, round: u64) {
    let snapshot = file.snapshot().unwrap();
    for n in 0..count {
        assert!(*snapshot.page(n).unwrap() == page(round * 1000 + n)[..]);
    }
}

#[test]
fn a_page_is_shared_and_stays_as_it_was_read() {
    with_file(|file| {
        write(file, 4, 1);
        let held = file.snapshot().unwrap().page(2).unwrap();
        let mut txn = file.begin().unwrap();
        let before = txn.page(2).unwrap();
        txn.page_mut(2).unwrap()[0] = 0xff;
        let after = txn.page(2).unwrap();
        txn.page_mut(2).unwrap()[0] = 0xee;
        assert_eq!((before[0], after[0]), (page(1002)[0], 0xff));
        assert_eq!(txn.page(2).unwrap()[0], 0xee);
        txn.discard(3).unwrap();
        assert!(*txn.page(3).unwrap() == [0; PAGE]);
        assert!(txn.page(4).is_err());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        assert!(*held == page(1002)[..]);
        let now = file.snapshot().unwrap();
        assert_eq!(now.page(2).unwrap()[0], 0xee);
        assert!(now.page(4).is_err());
    });
}

#[test]
fn what_fits_into_memory_is_read_from_the_device_once() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let options = options(mode).cache(1 << 20);
            let file = open(rt, &disk, options.clone()).unwrap();
            write(&file, 40, 1);
            file.checkpoint().unwrap();
            // What was written stays in memory.
            let reads = disk.counters().reads;
            check(&file, 40, 1);
            if mode == CommitMode::Logged {
                assert_eq!(disk.counters().reads, reads);
            }
            file.close().unwrap();
            let file = open(rt, &disk, options).unwrap();
            check(&file, 40, 1);
            let reads = disk.counters().reads;
            check(&file, 40, 1);
            assert_eq!(disk.counters().reads, reads);
            assert!(file.stats().memory >= 40 * PAGE as u64);
            file.close().unwrap();
        });
    }
}

#[test]
fn memory_is_bounded_and_what_was_overwritten_is_not_shown() {
    let disk = disk(2);
    SimRuntime::run(2, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut rng = Rng::new(2);
        for round in 1..40 {
            write(&file, 100, round);
            if rng.one_in(2) {
                file.checkpoint().unwrap();
            }
            check(&file, 100, round);
            // Memory holds the cache, and those of the 100 pages that are not durable or could not leave
            // memory.
            assert!(file.stats().memory <= 164 * PAGE as u64);
        }
        file.close().unwrap();
    });
}

#[test]
fn what_was_read_back_from_the_log_stays_in_memory() {
    let disk = disk(3);
    SimRuntime::run(3, |rt| {
        let options = options(CommitMode::Logged)
            .cache(40 * PAGE)
            .checkpoint_distance(1 << 20);
        let file = open(rt, &disk, options).unwrap();
        write(&file, 60, 1);
        check(&file, 60, 1);
        let snapshot = file.snapshot().unwrap();
        snapshot.page(7).unwrap();
        let reads = disk.counters().reads;
        for _ in 0..10 {
            assert!(*snapshot.page(7).unwrap() == page(1007)[..]);
        }
        assert_eq!(disk.counters().reads, reads);
        assert_eq!(file.stats().writes, 0, "the data file was not written yet");
        drop(snapshot);
        file.close().unwrap();
    });
}

#[test]
fn dropped_pages_are_zeroes_to_new_readers_and_stay_for_older_ones() {
    let disk = disk(4);
    SimRuntime::run(4, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged).cache(1 << 20)).unwrap();
        write(&file, 20, 1);
        file.checkpoint().unwrap();
        check(&file, 20, 1);
        let held = file.snapshot().unwrap();
        let mut txn = file.begin().unwrap();
        txn.set_page_count(5).unwrap();
        txn.set_page_count(20).unwrap();
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let now = file.snapshot().unwrap();
        for n in 5..20 {
            assert!(*now.page(n).unwrap() == [0; PAGE]);
            assert!(*held.page(n).unwrap() == page(1000 + n)[..]);
        }
        drop((held, now));
        file.close().unwrap();
    });
}

/// Pages that are read again and again are copied for each lane of threads. The next commit makes the copies
/// old.
#[test]
fn a_page_that_is_read_again_and_again_shows_what_was_committed_last() {
    let disk = disk(3);
    SimRuntime::run(3, |rt| {
        let options = options(CommitMode::Logged).cache(4096 * PAGE);
        let file = open(rt, &disk, options).unwrap();
        // Reads often enough that a copy is made and used.
        let read = |n: u64, expected: &[u8]| {
            for _ in 0..40 {
                assert!(*file.snapshot().unwrap().page(n).unwrap() == *expected);
            }
        };
        let mut held = Vec::new();
        for round in 1..20 {
            write(&file, 3, round);
            let before = file.stats().memory;
            (0..3).for_each(|n| read(n, &page(round * 1000 + n)));
            if round == 1 {
                assert_eq!(file.stats().memory, before + 3 * PAGE as u64, "copies");
            }
            held.push((round, file.snapshot().unwrap()));
            for (round, snapshot) in &held {
                let read = snapshot.page(2).unwrap();
                assert!(*read == page(round * 1000 + 2)[..], "as of round {round}");
            }
        }
        let change = |change: &dyn Fn(&mut Transaction)| {
            let mut txn = file.begin().unwrap();
            change(&mut txn);
            txn.commit().unwrap();
        };
        change(&|txn| txn.discard(1).unwrap());
        read(1, &[0; PAGE]);
        change(&|txn| txn.write(1, &page(7)).unwrap());
        read(1, &page(7));
        change(&|txn| txn.set_page_count(1).unwrap());
        change(&|txn| txn.set_page_count(3).unwrap());
        read(1, &[0; PAGE]);
        read(2, &[0; PAGE]);
        drop(held);
        file.close().unwrap();
    });
}

/// Runs `body` in another thread and waits for it.
fn elsewhere<T: Send + 'static>(rt: &SimRuntime, body: impl FnOnce() -> T + Send + 'static) -> T {
    let result = Arc::new(Mutex::new(None));
    let there = result.clone();
    let body = move || *there.lock().unwrap() = Some(body());
    rt.spawn("reader", Box::new(body)).unwrap().join().unwrap();
    result.lock().unwrap().take().unwrap()
}

/// Threads register their states in different lanes. Checkpoints keep the versions of all, and none is left
/// in memory when the last reader has ended.
#[test]
fn snapshots_of_many_threads_stay_as_they_are() {
    const THREADS: u64 = 20;
    for cache in [64, 4096] {
        let disk = disk(4);
        SimRuntime::run(4, |rt| {
            let options = options(CommitMode::Logged).cache(cache * PAGE);
            let file = open(rt, &disk, options).unwrap();
            write(&file, 4, 0);
            file.checkpoint().unwrap();
            let before = file.stats().memory;
            let mut held = Vec::new();
            for round in 0..THREADS {
                write(&file, 4, round);
                let file = file.clone();
                held.push((round, elsewhere(rt, move || file.snapshot().unwrap())));
            }
            for round in 0..3 {
                write(&file, 4, THREADS + round);
                file.checkpoint().unwrap();
            }
            for (round, snapshot) in &held {
                for n in 0..4 {
                    let read = snapshot.page(n).unwrap();
                    assert!(*read == page(round * 1000 + n)[..], "as of round {round}");
                }
            }
            elsewhere(rt, move || drop(held));
            write(&file, 4, THREADS);
            file.checkpoint().unwrap();
            check(&file, 4, THREADS);
            assert_eq!(file.stats().memory, before, "versions are left");
            file.close().unwrap();
        });
    }
}

#[test]
fn a_closed_file_gives_out_no_state() {
    with_file(|file| {
        write(file, 1, 1);
        let held = file.latest().unwrap();
        file.clone().close().unwrap();
        for closed in [
            file.latest().map(drop),
            file.snapshot().map(drop),
            file.begin().map(drop),
        ] {
            assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
        }
        drop(held);
    });
}
