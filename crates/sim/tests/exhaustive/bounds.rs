//! Commits of durable files within a bound, under a controlled clock.

use logforce_commit::file::{ErrorKind, Options, Prepare};
use logforce_device::{Method, Runtime};
use logforce_testkit::{Delays, Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOUND: Duration = Duration::from_millis(20);

/// Runs `threads` threads with 30 commits within [`BOUND`] each, on a disk whose barrier takes `barrier`.
/// Checks at each answer that all earlier answers older than the bound are on the medium. Returns the number of
/// barriers, and the longest call.
fn bounded_commits(seed: u64, threads: u64, barrier: Duration) -> (u64, Duration) {
    let options = SimOptions {
        delays: Some(Delays {
            write: Duration::ZERO,
            depth: 8,
            barrier,
        }),
        ..SimOptions::default()
    };
    let disk = SimDisk::new(options, seed);
    let longest = Arc::new(Mutex::new(Duration::ZERO));
    let barriers = Arc::new(Mutex::new(0));
    SimRuntime::run(seed, |rt| {
        let system = disk.system(rt);
        system.make_directory(Path::new("/d")).unwrap();
        let file = Options::new().create(true).method(Method::Fdatasync);
        let file = file.open(&*system, Path::new("/d/f")).unwrap();
        let file = Arc::new(file);
        let before = disk.counters().barriers;
        let answered = Arc::new(Mutex::new(Vec::<(u64, Duration)>::new()));
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (file, disk, answered) = (file.clone(), disk.clone(), answered.clone());
                let (clock, longest) = (rt.clone(), longest.clone());
                let body = move || {
                    let mut rng = Rng::new(seed << 8 | thread);
                    for i in 0..30 {
                        let slot = thread * 30 + i;
                        file.write_at(&[1 + slot as u8; 512], slot * 512).unwrap();
                        let began = clock.now();
                        file.commit_within(BOUND).unwrap();
                        let now = clock.now();
                        let mut longest = longest.lock().unwrap();
                        *longest = longest.max(now - began);
                        drop(longest);
                        let medium = disk.file_bytes("/d", "f").unwrap();
                        let mut answered = answered.lock().unwrap();
                        for (slot, since) in &*answered {
                            let at = *slot as usize * 512;
                            let is_there = medium.get(at) == Some(&(1 + *slot as u8));
                            let age = now - *since;
                            assert!(
                                is_there || age < BOUND,
                                "slot {slot} would be lost after {age:?}"
                            );
                        }
                        answered.push((slot, now));
                        drop(answered);
                        clock.sleep(Duration::from_micros(rng.below(3000)));
                    }
                };
                rt.spawn("worker", Box::new(body)).unwrap()
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        *barriers.lock().unwrap() = disk.counters().barriers - before;
        // The end makes durable what was left to the background.
        drop(Arc::into_inner(file).unwrap());
        let medium = disk.file_bytes("/d", "f").unwrap();
        for slot in 0..threads * 30 {
            assert_eq!(medium[slot as usize * 512], 1 + slot as u8);
        }
    });
    let barriers = *barriers.lock().unwrap();
    let longest = *longest.lock().unwrap();
    (barriers, longest)
}

/// On a device that syncs within half of the bound no commit waits, and few syncs serve all.
#[test]
fn commits_within_a_bound_do_not_wait_for_a_fast_device() {
    for seed in 0..20 {
        let (barriers, longest) = bounded_commits(seed, 2, Duration::from_millis(1));
        assert!(
            longest < Duration::from_millis(1),
            "seed {seed}: {longest:?}"
        );
        assert!((1..=10).contains(&barriers), "seed {seed}: {barriers}");
    }
}

/// A device that takes longer than the bound slows the commits down. None is answered while an older one than
/// the bound can be lost.
#[test]
fn commits_within_a_bound_wait_for_a_slow_device() {
    for seed in 0..20 {
        let (_, longest) = bounded_commits(seed, 3, Duration::from_millis(35));
        assert!(
            longest > Duration::from_millis(10),
            "seed {seed}: {longest:?}"
        );
    }
}

/// After a failed sync in the background the next call fails, and no later one succeeds.
#[test]
fn a_failed_sync_in_the_background_fails_the_next_commit() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        system.make_directory(Path::new("/d")).unwrap();
        let file = Options::new().create(true).method(Method::Fdatasync);
        let file = file.open(&*system, Path::new("/d/f")).unwrap();
        file.write_at(b"lost", 0).unwrap();
        file.commit_within(BOUND).unwrap();
        disk.fail_at(disk.ops(), Fault::Io);
        rt.sleep(BOUND);
        for _ in 0..2 {
            let error = file.commit_within(BOUND).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        }
        assert!(file.failure().is_some());
    });
}

/// Durable writes of other threads, of which one is always in flight, do not hold up a commit that was left to
/// the file's thread.
#[test]
fn durable_writes_let_a_submitted_commit_pass() {
    let options = SimOptions {
        blocking: true,
        delays: Some(Delays {
            write: Duration::from_millis(1),
            depth: 8,
            barrier: Duration::from_millis(1),
        }),
        ..SimOptions::default()
    };
    for seed in 0..20 {
        let disk = SimDisk::new(options.clone(), seed);
        SimRuntime::run(seed, |rt| {
            let system = disk.system(rt);
            system.make_directory(Path::new("/d")).unwrap();
            let file = Options::new().create(true).method(Method::DirectDsync);
            let file = file.aligned(true).in_flight_at_first(4);
            let file = Arc::new(file.open(&*system, Path::new("/d/f")).unwrap());
            file.prepare(0..64 << 10, Prepare::Written).unwrap();
            let writers: Vec<_> = (1..4)
                .map(|thread| {
                    let (file, clock) = (file.clone(), rt.clone());
                    let body = move || {
                        clock.sleep(Duration::from_micros(300 * thread));
                        for _ in 0..60 {
                            file.write_commit(&[1; 4096], thread * 4096).unwrap();
                        }
                    };
                    rt.spawn("writer", Box::new(body)).unwrap()
                })
                .collect();
            rt.sleep(Duration::from_millis(10));
            let begun = || file.stats().counters.through_writes;
            assert!(begun() > 9, "seed {seed}: {}", begun());
            let before = begun();
            let handle = file.submit(&[1; 4096], 0).unwrap();
            while !handle.is_done() {
                rt.sleep(Duration::from_micros(100));
            }
            // Some are in flight, and some begin before the file's thread runs.
            let passed = begun() - before;
            assert!(passed < 10, "seed {seed}: {passed} writes went first");
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }
}
