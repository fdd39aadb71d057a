//! Logs restored from a sparse copy: writes to the holes keep the log's guarantee, and need no space that
//! was not checked before.

use crate::common::{open, opened};
use logforce_core::{ErrorKind, Guarantee, Log, Lsn, Method, Options, Policy};
use logforce_sim::model::PATH;
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
use std::time::Duration;

const SEGMENT: u64 = 256 << 10;
const WRITE: Policy = Policy::Write {
    force_within: Duration::from_secs(60),
};

fn options(method: Method) -> Options {
    Options::new()
        .method(method)
        .segment_size(SEGMENT)
        .first_segment_size(SEGMENT)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .max_spare_segments(2)
        .require(Guarantee::Nothing)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
}

/// Creates a closed log of some segments and a spare, and copies it.
fn copied(disk: &SimDisk, method: Method) {
    SimRuntime::run(1, |rt| {
        let log = opened(disk, rt, options(method));
        for n in 0..100u8 {
            log.commit(&[n | 1; 7_000]).expect("nothing fails");
        }
        log.truncate_front(Lsn(2 * SEGMENT)).expect("nothing fails");
        log.close().expect("nothing fails");
    });
    disk.copy_sparsely(PATH);
}

fn count(log: &Log) -> usize {
    log.read_from(log.front_lsn()).expect("it is there").count()
}

#[test]
fn commits_into_holes_are_worth_what_they_are_said_to_be() {
    for (method, policy) in [
        (Method::Direct, Policy::Force),
        (Method::DirectDsync, WRITE),
    ] {
        for (tells_blocks, journal) in [(true, true), (false, true), (true, false)] {
            let what = format!("{method}, {policy:?}, {tells_blocks}, {journal}");
            let disk = SimDisk::new(
                SimOptions {
                    tells_blocks,
                    torn_renames: !journal,
                    ..SimOptions::default()
                },
                1,
            );
            copied(&disk, method);
            let before = SimRuntime::run(2, |rt| {
                let log = opened(&disk, rt, options(method));
                let before = count(&log);
                // The commits overwrite the holes of the current segment and of the reused spares.
                for n in 0..200u8 {
                    let done = log
                        .commit_with([n | 1; 4_000], policy)
                        .expect("nothing fails");
                    assert_eq!(done.guarantee, Guarantee::OsCrash, "{what}: commit {n}");
                }
                disk.cut();
                before
            });
            disk.crash(Failure::Os, Some(Survival::Lost), 3);
            SimRuntime::run(4, |rt| {
                let log = opened(&disk, rt, options(method));
                assert_eq!(count(&log), before + 200, "{what}");
                log.close().expect("nothing fails");
            });
        }
    }
}

/// Returns the bytes that the copy occupies.
fn taken(disk: &SimDisk) -> u64 {
    let names = disk.stable_names(PATH).into_iter();
    let files = names.filter_map(|n| disk.file_bytes(PATH, &n));
    let of = |bytes: Vec<u8>| {
        bytes
            .chunks(512)
            .filter(|s| s.iter().any(|b| *b != 0))
            .count()
    };
    files.map(of).sum::<usize>() as u64 * 512
}

#[test]
fn a_copy_opens_on_a_full_disk_and_can_be_truncated() {
    for method in [Method::Direct, Method::DirectDsync] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        copied(&disk, method);
        // The free space does not suffice for the holes of the current segment.
        let little = options(method).first_segment_size(32 << 10);
        let space = taken(&disk) + (64 << 10);
        disk.change(|o| o.capacity = Some(space));
        SimRuntime::run(2, |rt| {
            let log = opened(&disk, rt, little.clone());
            let refused = loop {
                match log.commit(&[1; 7_000]) {
                    Ok(_) => {}
                    Err(e) => break e,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{method}: {refused}");
            log.truncate_front(log.durable_lsn())
                .expect("it makes space");
            for _ in 0..10 {
                log.commit(&[1; 7_000]).expect("there is space again");
            }
            log.close().expect("nothing fails");
        });
        // Without space the opening is refused. With space the same opening succeeds.
        let disk = SimDisk::new(SimOptions::default(), 1);
        copied(&disk, method);
        let space = taken(&disk);
        disk.change(|o| o.capacity = Some(space));
        SimRuntime::run(2, |rt| {
            let refused = open(&disk, rt, &little).expect_err("it has no space");
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{method}: {refused}");
            disk.change(|o| o.capacity = None);
            let log = opened(&disk, rt, little.clone());
            assert!(count(&log) > 30, "{}", count(&log));
            log.close().expect("nothing fails");
        });
    }
}

/// A segment that another opening has only reserved is filled in place, without new space.
#[test]
fn reserved_segments_open_on_a_full_disk_by_any_method() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let bulk = |method| options(method).force_of_bulk(64 << 10);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, bulk(Method::DirectDsync));
        for _ in 0..20 {
            for _ in 0..10 {
                log.append(&[7; 14_000]).expect("nothing fails");
            }
            log.force(log.tail_lsn()).expect("nothing fails");
        }
        assert!(log.stats().counters.segments_unfilled > 2);
        log.close().expect("nothing fails");
    });
    disk.change(|o| o.capacity = Some(1));
    SimRuntime::run(2, |rt| {
        let log = opened(&disk, rt, bulk(Method::Direct));
        let done = log.commit(&[1; 7_000]).expect("it is prepared");
        assert_eq!(done.guarantee, Guarantee::OsCrash);
        disk.cut();
    });
    disk.crash(Failure::Os, Some(Survival::Lost), 3);
    SimRuntime::run(4, |rt| {
        let log = opened(&disk, rt, bulk(Method::Direct));
        assert_eq!(count(&log), 201);
        log.close().expect("nothing fails");
    });
}
