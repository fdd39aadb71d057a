//! Segments that the device zeroes: they count as written, survive a crash as such, and are written where the
//! device or the filesystem refuses.

use crate::common::opened;
use logforce_core::{ErrorKind, Guarantee, Log, Method, Options};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

const SEGMENT: u64 = 256 << 10;

fn options() -> Options {
    Options::new()
        .method(Method::Direct)
        .segment_size(SEGMENT)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .require(Guarantee::Nothing)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
        .device_zeroes(true)
}

fn disk(zeroes: bool, tells_blocks: bool) -> SimDisk {
    let options = SimOptions {
        zeroes,
        tells_blocks,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

/// Commits `records` records of 7,000 bytes, each with the guarantee of a write to written blocks.
fn commit(log: &Log, records: usize) {
    for n in 0..records {
        let done = log.commit(&[7; 7_000]).expect("nothing fails");
        assert_eq!(done.guarantee, Guarantee::OsCrash, "commit {n}");
    }
}

/// Returns the number of bytes that a log writes which prepares at least four segments.
fn written(disk: &SimDisk, options: Options) -> u64 {
    SimRuntime::run(1, |rt| {
        let log = opened(disk, rt, options);
        commit(&log, 140);
        let counters = log.stats().counters;
        assert!(counters.segments_prepared >= 4, "{counters:?}");
        assert_eq!(counters.segments_unfilled, 0);
        log.close().expect("nothing fails");
    });
    disk.counters().bytes
}

#[test]
fn the_device_zeroes_segments_and_the_log_writes_only_records() {
    let (zeroed, filled) = (disk(true, true), disk(true, true));
    let by_device = written(&zeroed, options());
    let by_writes = written(&filled, options().device_zeroes(false));
    assert_eq!(filled.counters().zeroes, 0, "it is off by default");
    let segments = zeroed.counters().zeroes;
    assert!(segments >= 4, "{segments}");
    assert!(
        by_device + segments * SEGMENT <= by_writes + 2 * SEGMENT,
        "{by_device} bytes, {by_writes} bytes filled"
    );
}

/// A device without the command, and a filesystem that does not report its blocks as written afterwards: the
/// log asks once and writes the zeroes.
#[test]
fn a_refusal_is_remembered_and_the_zeroes_are_written() {
    let plain = written(&disk(false, true), options().device_zeroes(false));
    for (zeroes, tells_blocks, asked) in [(false, true, 0), (true, false, 2)] {
        let disk = disk(zeroes, tells_blocks);
        assert_eq!(written(&disk, options()), plain, "{zeroes} {tells_blocks}");
        // Once by the opening, and once by the log.
        assert!(disk.counters().zeroes <= asked, "{:?}", disk.counters());
    }
}

#[test]
fn commits_into_zeroed_segments_survive_a_crash_of_the_system() {
    for survival in Survival::ALL {
        let disk = disk(true, true);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, options());
            commit(&log, 140);
            disk.cut();
        });
        assert!(disk.counters().zeroes >= 4);
        disk.crash(Failure::Os, Some(survival), 3);
        SimRuntime::run(2, |rt| {
            let log = opened(&disk, rt, options());
            let kept = log.read_from(log.front_lsn()).expect("it is there").count();
            assert_eq!(kept, 140, "{survival:?}");
            log.close().expect("nothing fails");
        });
    }
}

/// On a filesystem that reserves no blocks, the device's zeroes are the first to need space.
#[test]
fn a_full_disk_refuses_zeroes_like_any_new_segment() {
    let disk = SimDisk::new(
        SimOptions {
            zeroes: true,
            reserves: false,
            capacity: Some(3 * SEGMENT),
            ..SimOptions::default()
        },
        1,
    );
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options());
        let refused = loop {
            if let Err(e) = log.commit(&[7; 7_000]) {
                break e;
            }
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        disk.change(|o| o.capacity = None);
        let before = disk.counters().zeroes;
        commit(&log, 140);
        assert!(disk.counters().zeroes >= before + 3, "it still asks");
        log.close().expect("nothing fails");
    });
}
