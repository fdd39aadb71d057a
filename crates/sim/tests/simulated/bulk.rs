//! Bulk appends: segments that are only reserved, several prepared at a time, and the guarantee of writes to
//! them.

use crate::common::opened;
use logforce_core::{Guarantee, Log, Method, Options, Policy};
use logforce_device::System;
use logforce_sim::model::PATH;
use logforce_testkit::{Delays, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::time::Duration;

const SEGMENT: u64 = 512 << 10;
const RECORD: usize = 16 << 10;
const WRITE: Policy = Policy::Write {
    force_within: Duration::from_secs(60),
};

fn options() -> Options {
    Options::new()
        .segment_size(SEGMENT)
        .max_batch_size(64 << 10)
        .buffer_size(128 << 10)
        .force_of_bulk(128 << 10)
        .require(Guarantee::Nothing)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
}

/// Appends this many bytes, and forces them.
fn bulk(log: &Log, bytes: u64) {
    for _ in 0..bytes / RECORD as u64 {
        log.append(&vec![7; RECORD]).expect("nothing fails");
    }
    log.force(log.tail_lsn()).expect("nothing fails");
}

/// Returns the number of bytes of the segments and spares.
fn on_disk(disk: &SimDisk, rt: &SimRuntime) -> u64 {
    let system = disk.system(rt);
    let dir = (&*system as &dyn System)
        .directory(Path::new(PATH))
        .unwrap();
    let entries = dir.entries().unwrap();
    let data = entries.iter().filter(|e| e.len >= SEGMENT);
    data.map(|e| e.len).sum()
}

fn unfilled(log: &Log) -> u64 {
    log.stats().counters.segments_unfilled
}

/// Commits one by one until another segment is in use.
fn commit_over_a_segment(log: &Log) {
    let end = log.tail_lsn().0 / SEGMENT * SEGMENT + SEGMENT;
    while log.tail_lsn().0 <= end {
        log.commit(&[7; 3000]).expect("nothing fails");
    }
}

#[test]
fn segments_are_reserved_in_bulk_and_filled_for_commits() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options());
        for _ in 0..3 {
            commit_over_a_segment(&log);
        }
        assert_eq!(unfilled(&log), 0);
        let before = log.stats().counters;
        bulk(&log, 16 * SEGMENT);
        let after = log.stats().counters;
        let prepared = after.segments_prepared - before.segments_prepared;
        // The log prepared the first ones before it knew of the bulk appends.
        assert!(after.segments_unfilled + 2 >= prepared, "{after:?}");
        assert!(prepared >= 14, "{after:?}");
        // One sync covers the names of several segments.
        let syncs = after.directory_syncs - before.directory_syncs;
        assert!(syncs * 3 <= prepared, "{syncs} for {prepared}");
        let written = after.device_write_bytes - before.device_write_bytes;
        assert!(
            written < 18 * SEGMENT,
            "filled nevertheless: {written} bytes"
        );
        // The reserved segments are used up first; after that segments are filled again.
        for _ in 0..6 {
            commit_over_a_segment(&log);
        }
        let left = unfilled(&log);
        for _ in 0..6 {
            commit_over_a_segment(&log);
        }
        assert_eq!(unfilled(&log), left);
        log.close().expect("nothing fails");
    });
}

#[test]
fn a_write_that_is_the_first_to_its_blocks_is_worth_less() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options().method(Method::DirectDsync));
        let worth = |policy| log.commit_with(b"a record", policy).unwrap().guarantee;
        assert_eq!(worth(WRITE), Guarantee::OsCrash);
        log.force(log.tail_lsn()).unwrap();
        // Callers rely on written records that are not forced, so nothing counts as bulk before the next
        // segment.
        commit_over_a_segment(&log);
        commit_over_a_segment(&log);
        bulk(&log, 8 * SEGMENT);
        assert!(unfilled(&log) > 4);
        assert_eq!(worth(WRITE), Guarantee::ProcessCrash);
        assert_eq!(worth(Policy::Force), Guarantee::PowerLoss);
        log.close().unwrap();
        // The next opening also knows that.
        let log = opened(&disk, rt, options().method(Method::DirectDsync));
        let worth = |policy| log.commit_with(b"a record", policy).unwrap().guarantee;
        assert_eq!(worth(WRITE), Guarantee::ProcessCrash);
        // The log is back in filled segments.
        for _ in 0..8 {
            commit_over_a_segment(&log);
        }
        assert_eq!(worth(WRITE), Guarantee::OsCrash);
        log.close().unwrap();
    });
}

/// As long as callers rely on written records, segments are filled and keep the guarantee of writes.
#[test]
fn nothing_is_only_reserved_while_writes_are_relied_on() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options().method(Method::DirectDsync));
        for _ in 0..10 * SEGMENT / (2 * RECORD as u64) {
            log.append(&vec![7; RECORD]).unwrap();
            let done = log.commit_with(vec![7; RECORD], WRITE).unwrap();
            assert!(done.guarantee >= Guarantee::OsCrash, "{done:?}");
        }
        assert_eq!(unfilled(&log), 0);
        log.close().unwrap();
    });
}

#[test]
fn nothing_is_only_reserved_where_a_force_does_not_cover_it() {
    let no_journal = SimOptions {
        torn_renames: true,
        ..SimOptions::default()
    };
    let no_blocks = SimOptions {
        reserves: false,
        ..SimOptions::default()
    };
    for (disk, method) in [
        // A commit must not be the first to ask for blocks: the disk may be full by then.
        (no_blocks, Method::DirectDsync),
        (no_journal, Method::DirectDsync),
        (SimOptions::default(), Method::Direct),
        (SimOptions::default(), Method::Buffered),
    ] {
        let disk = SimDisk::new(disk, 1);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, options().method(method));
            bulk(&log, 8 * SEGMENT);
            assert_eq!(unfilled(&log), 0, "{method}");
            assert!(log.stats().counters.segments_prepared >= 7);
            log.close().unwrap();
        });
    }
}

/// The cap also holds for segments that are prepared together.
#[test]
fn those_prepared_at_once_stay_below_the_cap() {
    for segments in 3..8 {
        let cap = segments * SEGMENT;
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, options().max_log_size(cap));
            while log.append(&vec![7; RECORD]).is_ok() {
                assert!(on_disk(&disk, rt) <= cap, "{} of {cap}", on_disk(&disk, rt));
            }
            assert!(log.tail_lsn().0 + SEGMENT > cap, "{} used", log.tail_lsn());
            // Truncated segments are used again.
            log.force(log.tail_lsn()).unwrap();
            log.truncate_front(log.tail_lsn()).unwrap();
            rt.sleep(Duration::from_secs(1));
            bulk(&log, cap - 2 * SEGMENT);
            assert!(on_disk(&disk, rt) <= cap, "{} of {cap}", on_disk(&disk, rt));
            log.close().unwrap();
        });
    }
}

/// The files of truncated segments are used again several at a time.
#[test]
fn spares_are_used_together() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options().max_spare_segments(4));
        for _ in 0..4 {
            commit_over_a_segment(&log);
        }
        log.truncate_front(log.tail_lsn()).unwrap();
        let before = log.stats().counters;
        for _ in 0..2 {
            commit_over_a_segment(&log);
            rt.sleep(Duration::from_secs(1));
        }
        let after = log.stats().counters;
        let recycled = after.segments_recycled - before.segments_recycled;
        assert!(recycled >= 3, "{after:?}");
        assert!(after.directory_syncs - before.directory_syncs < recycled);
        log.close().unwrap();
    });
}

/// A file that was only reserved is filled before commits use it again, if the filesystem does not report its
/// blocks. This holds in the same opening, and after an opening whose method forces nothing.
#[test]
fn spares_that_were_only_reserved_are_filled() {
    for reopens in [false, true] {
        let silent = SimOptions {
            tells_blocks: false,
            ..SimOptions::default()
        };
        let disk = SimDisk::new(silent, 1);
        SimRuntime::run(1, |rt| {
            let mut log = opened(&disk, rt, options().max_spare_segments(8));
            bulk(&log, 8 * SEGMENT);
            assert!(unfilled(&log) > 4);
            if reopens {
                // The next opening learns from their headers that these spares were only reserved.
                log.truncate_front(log.tail_lsn()).unwrap();
                log.close().unwrap();
                log = opened(
                    &disk,
                    rt,
                    options().max_spare_segments(8).method(Method::Direct),
                );
            } else {
                for _ in 0..6 {
                    commit_over_a_segment(&log);
                }
                log.truncate_front(log.tail_lsn()).unwrap();
            }
            let before = log.stats().counters;
            for _ in 0..10 {
                commit_over_a_segment(&log);
            }
            let after = log.stats().counters;
            let recycled = after.segments_recycled - before.segments_recycled;
            assert!(recycled >= 6, "{after:?}");
            let all = after.device_write_bytes - before.device_write_bytes;
            let filling = all - (after.batch_bytes - before.batch_bytes);
            // New segments are filled, too. Two spares were filled before the log knew of the bulk appends.
            let prepared = after.segments_prepared - before.segments_prepared;
            assert!(
                filling >= (prepared - 2) * SEGMENT,
                "{filling} for {prepared}"
            );
            log.close().unwrap();
        });
    }
}

/// The next segment is filled while the current one is used, neither at once nor too late.
#[test]
fn a_segment_is_filled_evenly() {
    const LEN: u64 = 8 << 20;
    let delays = Delays {
        write: Duration::from_micros(100),
        depth: 2,
        barrier: Duration::from_micros(200),
    };
    let slow = SimOptions {
        delays: Some(delays),
        ..SimOptions::default()
    };
    let disk = SimDisk::new(slow, 1);
    SimRuntime::run(1, |rt| {
        let options = options().segment_size(LEN).method(Method::DirectDsync);
        let log = opened(&disk, rt, options);
        let own = |log: &Log| disk.counters().bytes - log.tail_lsn().0;
        let before = own(&log);
        let filled_at = |eighths| {
            while log.tail_lsn().0 < LEN / 8 * eighths {
                log.commit(&[7; 3000]).expect("nothing fails");
            }
            own(&log) - before
        };
        assert!(filled_at(2) < LEN / 16, "before a quarter is used");
        let half = filled_at(4);
        assert!((LEN / 8..LEN / 2).contains(&half), "at a half: {half}");
        let late = filled_at(6);
        assert!((LEN / 2..LEN).contains(&late), "at three quarters: {late}");
        assert!(filled_at(8) >= LEN, "at the end");
        log.commit(b"in the next segment").expect("nothing fails");
        assert_eq!(log.stats().counters.segment_waits, 0);
        log.close().expect("nothing fails");
    });
}

/// A disk with little bandwidth makes smaller forces bulk: here those of 1 MB, because fills write less in the
/// time of four small writes. Now and then a segment is filled again, to notice if the disk became faster.
#[test]
fn on_a_slow_disk_smaller_forces_are_bulk() {
    const LEN: u64 = 8 << 20;
    let slow = || SimOptions {
        delays: Some(Delays {
            write: Duration::from_millis(1),
            depth: 2,
            barrier: Duration::ZERO,
        }),
        ..SimOptions::default()
    };
    let prepared_for = |record| {
        let disk = SimDisk::new(slow(), 1);
        SimRuntime::run(1, |rt| {
            let options = options().segment_size(LEN).method(Method::DirectDsync);
            let options = options.max_batch_size(1 << 20).buffer_size(4 << 20);
            let log = opened(&disk, rt, options.force_of_bulk(4 << 20));
            let commits_to = |end, record: usize| {
                let record = vec![7; record];
                while log.tail_lsn().0 < end {
                    log.commit(&record).expect("nothing fails");
                }
                log.stats().counters
            };
            // The log measures the disk with small commits.
            let before = commits_to(2 * LEN, 3000);
            assert_eq!(before.segments_unfilled, 0);
            let after = commits_to(32 * LEN, record);
            log.close().expect("nothing fails");
            let prepared = after.segments_prepared - before.segments_prepared;
            (prepared, after.segments_unfilled)
        })
    };
    let (prepared, unfilled) = prepared_for(200 << 10);
    assert_eq!(unfilled, 0, "of {prepared}");
    let (prepared, unfilled) = prepared_for(1000 << 10);
    assert!(unfilled >= 3, "{unfilled} of {prepared}");
    assert!(unfilled + 3 < prepared, "{unfilled} of {prepared}");
}

/// A close does not wait for the rest of a fill, which may take long beside a log with few appends.
#[test]
fn a_close_ends_a_fill() {
    const LEN: u64 = 8 << 20;
    let slow = SimOptions {
        delays: Some(Delays {
            write: Duration::from_millis(10),
            depth: 2,
            barrier: Duration::ZERO,
        }),
        ..SimOptions::default()
    };
    let disk = SimDisk::new(slow, 1);
    SimRuntime::run(1, |rt| {
        let options = options().segment_size(LEN).method(Method::DirectDsync);
        let log = opened(&disk, rt, options);
        while log.tail_lsn().0 < LEN / 2 {
            log.commit(&[7; 3000]).expect("nothing fails");
        }
        let before = disk.counters().bytes;
        log.close().expect("nothing fails");
        let written = disk.counters().bytes - before;
        assert!(written < LEN / 8, "{written} bytes");
    });
}
