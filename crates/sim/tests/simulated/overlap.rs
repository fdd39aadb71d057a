//! Adaptation of the number of writes in flight to the device: slow simulated disks, and many committing
//! threads.

use crate::common::opened;
use logforce_core::Options;
use logforce_device::Runtime;
use logforce_testkit::{Delays, SimDisk, SimOptions, SimRuntime};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Measurements of threads that commit one record after the other.
struct Seen {
    /// Median time of the commits in the second half of the run.
    p50: Duration,
    /// Number of commits in the second half.
    commits: usize,
    /// Numbers of writes that began beside none, one, two... others in the second half.
    beside: Vec<u64>,
}

fn commits(delays: Delays, threads: usize, time: Duration, options: Options) -> Seen {
    let disk = SimDisk::new(
        SimOptions {
            blocking: true,
            delays: Some(delays),
            ..SimOptions::default()
        },
        1,
    );
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options.segment_size(64 << 20).live_stats(false));
        let (half, end) = (rt.now() + time / 2, rt.now() + time);
        let took = Arc::new(Mutex::new(Vec::new()));
        let mut running = Vec::new();
        for _ in 0..threads {
            let (log, own, took) = (log.clone(), rt.clone(), took.clone());
            let body = move || {
                while own.now() < end {
                    let began = own.now();
                    log.commit(&[7; 128]).expect("nothing fails");
                    let waited = own.now() - began;
                    if began >= half {
                        took.lock().unwrap().push(waited);
                    }
                }
            };
            running.push(rt.spawn("committer", Box::new(body)).unwrap());
        }
        rt.sleep(time / 2);
        let before = disk.begun_beside();
        for thread in running {
            thread.join().unwrap();
        }
        let mut beside = disk.begun_beside();
        for (now, before) in beside.iter_mut().zip(before) {
            *now -= before;
        }
        let mut took = std::mem::take(&mut *took.lock().unwrap());
        took.sort();
        log.close().unwrap();
        Seen {
            p50: took[took.len() / 2],
            commits: took.len(),
            beside,
        }
    })
}

/// On a networked volume, a commit waits for hardly more than its own write.
#[test]
fn a_disk_that_serves_many_at_once_gets_many() {
    for write in [1, 5] {
        let (write, threads) = (Duration::from_millis(write), 16);
        let delays = Delays {
            write,
            depth: 32,
            barrier: Duration::ZERO,
        };
        let seen = commits(delays, threads, 600 * write, Options::new());
        let one = Options::new().max_in_flight_writes(1);
        let one = commits(delays, threads, 100 * write, one);
        assert!(seen.p50 <= write.mul_f64(1.25), "{threads}: {:?}", seen.p50);
        assert!(
            seen.commits > 8 * one.commits,
            "{} {}",
            seen.commits,
            one.commits
        );
    }
}

/// If the device serves one write after the other, a second write in flight gains nothing.
#[test]
fn a_disk_that_serves_one_after_another_gets_one() {
    for threads in [2, 16] {
        let write = Duration::from_millis(1);
        let delays = Delays {
            write,
            depth: 1,
            barrier: Duration::ZERO,
        };
        let seen = commits(delays, threads, 1000 * write, Options::new());
        let all: u64 = seen.beside.iter().sum();
        assert!(all - seen.beside[0] <= all / 10, "{:?}", seen.beside);
    }
}

/// A write waits for the threads that were acknowledged last, for at most half of its duration.
#[test]
fn commits_that_do_not_come_again_are_not_waited_for() {
    let write = Duration::from_millis(1);
    let disk = SimDisk::new(
        SimOptions {
            blocking: true,
            delays: Some(Delays {
                write,
                depth: 1,
                barrier: Duration::ZERO,
            }),
            ..SimOptions::default()
        },
        1,
    );
    SimRuntime::run(1, |rt| {
        let options = Options::new().in_flight_at_first(0).live_stats(false);
        let log = opened(&disk, rt, options);
        let running: Vec<_> = (0..3)
            .map(|_| {
                let log = log.clone();
                let body = move || {
                    for _ in 0..40 {
                        log.commit(&[7; 128]).unwrap();
                    }
                };
                rt.spawn("committer", Box::new(body)).unwrap()
            })
            .collect();
        for _ in 0..40 {
            log.commit(&[7; 128]).unwrap();
        }
        let writes = log.stats().batch_records.count();
        assert!(writes < 60, "{writes} for up to 160 commits");
        for thread in running {
            thread.join().unwrap();
        }
        for _ in 0..20 {
            let began = rt.now();
            log.commit(&[7; 128]).unwrap();
            let took = rt.now() - began;
            assert!(took < write.mul_f64(1.6), "{took:?}");
        }
        log.close().unwrap();
    });
}
