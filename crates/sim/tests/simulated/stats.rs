//! Counters of the log, compared with those of the disk. Times are not compared.

use crate::common::opened;
use logforce_core::{Batch, Guarantee, HistogramSnapshot, Method, Options, Policy, Result, Stats};
use logforce_sim::model::small;
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::time::Duration;

const COMMITS: u64 = 50;

/// Returns options with enough space, and without writes by the log itself in between.
fn roomy(method: Method) -> Options {
    Options::new()
        .segment_size(1 << 20)
        .method(method)
        .require(Guarantee::ProcessCrash)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
}

/// Measures the cost of committing one by one, by the counters of the log and of the disk.
fn singles(method: Method) -> Stats {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, roomy(method));
        log.commit(b"the first").unwrap();
        // The second segment is prepared meanwhile.
        rt.sleep(Duration::from_secs(1));
        let (before, counted) = (log.stats(), disk.counters());
        for n in 0..COMMITS {
            log.commit(&vec![7; n as usize]).unwrap();
        }
        let (after, now) = (log.stats(), disk.counters());
        let stats = after.difference(&before);
        let c = &stats.counters;
        assert_eq!(c.device_writes, now.writes - counted.writes, "{method}");
        assert_eq!(c.device_write_bytes, now.bytes - counted.bytes, "{method}");
        let through = now.through_writes - counted.through_writes;
        assert_eq!(c.through_writes, through, "{method}");
        assert_eq!(c.device_barriers, now.barriers - counted.barriers);
        assert_eq!(c.directory_syncs, 0);
        assert_eq!(after.durable, log.durable_lsn());
        assert_eq!(after.oldest_io_age, Duration::ZERO, "nothing is in flight");
        log.close().unwrap();
        stats
    })
}

fn counts(all: [&HistogramSnapshot; 5]) -> [u64; 5] {
    all.map(HistogramSnapshot::count)
}

#[test]
fn single_commits_by_every_method() {
    for (method, through, barriers) in [
        (Method::DirectDsync, COMMITS, 0),
        (Method::Dsync, COMMITS, 0),
        (Method::DirectFdatasync, 0, COMMITS),
        (Method::Fsync, 0, COMMITS),
        (Method::Direct, 0, 0),
        (Method::Buffered, 0, 0),
    ] {
        let stats = singles(method);
        let c = &stats.counters;
        let user: u64 = (0..COMMITS).sum();
        // A batch header of 128 bytes, a frame header of 8, and the record padded to a multiple of 8.
        let used: u64 = (0..COMMITS).map(|n| 136 + n.next_multiple_of(8)).sum();
        assert_eq!((c.appends, c.records, c.record_bytes), (50, 50, user));
        assert_eq!((c.commits_force, c.commits_write, c.submits), (50, 0, 0));
        assert_eq!((c.batches, c.batch_bytes), (COMMITS, COMMITS * 4096));
        assert_eq!(c.padding_bytes, COMMITS * 4096 - used, "{method}");
        assert_eq!(c.writes, COMMITS);
        assert_eq!((c.through_writes, c.barriers), (through, barriers));
        assert_eq!((c.forces, c.stamps), (COMMITS, 0), "{method}");
        assert_eq!((c.buffer_waits, c.segment_waits), (0, 0));
        let histograms = [
            &stats.wait,
            &stats.commit,
            &stats.write,
            &stats.force,
            &stats.batch_records,
        ];
        assert_eq!(counts(histograms), [COMMITS; 5], "{method}");
        assert_eq!(stats.batch_records.sum(), COMMITS);
        assert_eq!(stats.records_per_batch(), Some(1.0));
        assert!(stats.wait.sum() >= stats.force.sum());
        assert_eq!(stats.submit.count(), 0);
        let text = stats.to_string();
        assert!(
            text.contains("50 records") && text.contains("50 forces"),
            "{text}"
        );
    }
}

#[test]
fn batches_of_many_records_waits_and_policies() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, roomy(Method::DirectDsync));
        rt.sleep(Duration::from_secs(1));
        let before = log.stats();
        for _ in 0..20 {
            log.append(b"a record").unwrap();
        }
        log.append(Batch::of(&[b"one", b"two", b"three"])).unwrap();
        log.force(log.tail_lsn()).unwrap();
        // The record is durable already, so the call does not wait.
        log.force(log.tail_lsn()).unwrap();
        let within = Duration::from_secs(1);
        let write = Policy::Write {
            force_within: within,
        };
        log.commit_with(b"written", write).unwrap();
        log.commit_with(b"staged", Policy::Interval { within })
            .unwrap();
        rt.sleep(Duration::from_secs(2));
        let submitted: Vec<_> = (0..5)
            .map(|_| log.submit(b"submitted", Policy::Force).unwrap())
            .collect();
        for one in submitted {
            one.wait().unwrap();
        }
        rt.sleep(Duration::from_secs(1));
        let stats = log.stats().difference(&before);
        let c = &stats.counters;
        assert_eq!((c.appends, c.records), (28, 30));
        let commits = (c.commits_force, c.commits_write, c.commits_interval);
        assert_eq!((commits, c.submits), ((0, 1, 1), 5));
        assert_eq!(stats.batch_records.sum(), 30, "{stats:#?}");
        assert_eq!(stats.batch_records.max(), 23);
        assert_eq!(stats.commit.count(), 0);
        // The force, the write, and the submissions that were not complete by then.
        assert!((2..=7).contains(&stats.wait.count()), "{stats:#?}");
        assert!((1..=5).contains(&stats.submit.count()), "{stats:#?}");
        assert_eq!(stats.force.count(), c.forces);
        assert_eq!(stats.commit_to_force_ratio(), None);
        log.close().unwrap();
    });
}

/// Over a log's whole life, with preparation, truncation and recycling, each write, barrier and sync that the
/// disk saw is counted.
#[test]
fn everything_that_the_disk_sees_is_counted() {
    for method in [Method::DirectDsync, Method::DirectFdatasync] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, small().method(method));
            let other = log.clone();
            for n in 0..40 {
                log.append(&vec![1; 900 * n % 10_000]).unwrap();
                let last = log.commit(&vec![1; 500 * n]).unwrap();
                if n % 8 == 7 {
                    log.truncate_front(last.end).unwrap();
                }
            }
            log.close().unwrap();
            let (stats, counted) = (other.stats(), disk.counters());
            let c = &stats.counters;
            assert_eq!(c.device_writes, counted.writes, "{method}");
            assert_eq!(c.device_write_bytes, counted.bytes, "{method}");
            assert_eq!(c.through_writes, counted.through_writes);
            assert_eq!(c.device_barriers, counted.barriers);
            // The system, not the log, makes the log's directory durable.
            assert!((counted.dir_syncs - c.directory_syncs) <= 2, "{c:?}");
            assert!(c.segments_prepared > 5 && c.segments_recycled > 0, "{c:?}");
            assert!(c.segment_waits > 0, "{c:?}");
            assert!(c.barriers <= c.device_barriers && c.batches == c.writes);
            assert_eq!(c.records, 80);
            assert_eq!(c.forces, stats.force.count());
        });
    }
}

/// Another thread sees the age of a call that does not return.
#[test]
fn a_call_under_way_has_an_age() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let seen = SimRuntime::run(3, |rt| {
        let log = opened(&disk, rt, roomy(Method::DirectDsync));
        let committer = log.clone();
        let body = move || {
            for _ in 0..200 {
                committer.commit(b"a record").unwrap();
            }
        };
        use logforce_device::Runtime;
        let joiner = rt.spawn("committer", Box::new(body)).unwrap();
        let mut seen = 0;
        for _ in 0..2000 {
            seen += u32::from(log.stats().oldest_io_age > Duration::ZERO);
            rt.point();
        }
        joiner.join().unwrap();
        assert_eq!(log.stats().oldest_io_age, Duration::ZERO);
        log.close().unwrap();
        seen
    });
    assert!(seen > 0);
}

#[test]
fn append_waits_for_room() -> Result<()> {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, small().segment_size(1 << 20));
        rt.sleep(Duration::from_secs(1));
        for _ in 0..100 {
            log.append(&[1; 5_000])?;
        }
        let c = log.stats().counters;
        assert!(c.buffer_waits > 0 && c.buffer_waits <= 100, "{c:?}");
        log.close()
    })
}
