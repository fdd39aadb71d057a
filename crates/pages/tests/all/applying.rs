//! Tests of how a checkpoint of a logged file writes pages: the number of calls, and the effect of a sync
//! that fails in the middle.

use crate::common::{disk, open, options};
use logforce_pages::{CommitMode, ErrorKind, Options, PageFile};
use logforce_testkit::{Call, FailingCalls, Failure, Refusal, SimDisk, SimOptions, SimRuntime};

const PAGE: usize = 4096;
/// Number of scattered pages: every second page of the file, so none is adjacent to another.
const SCATTERED: u64 = 1300;

fn large(direct: Option<bool>) -> Options {
    let options = options(CommitMode::Logged)
        .page_size(PAGE as u32)
        .checkpoint_distance(64 << 20)
        .cache(64 << 20);
    match direct {
        None => options,
        Some(direct) => options.direct(direct),
    }
}

fn write_scattered(file: &PageFile, byte: u8) {
    let mut txn = file.begin().unwrap();
    for n in 0..SCATTERED {
        txn.write(2 * n, &[byte; PAGE]).unwrap();
    }
    txn.commit().unwrap();
}

/// Opens a file in which every second page is written and applied.
fn filled(rt: &SimRuntime, disk: &SimDisk, direct: Option<bool>) -> PageFile {
    let file = open(rt, disk, large(direct)).unwrap();
    write_scattered(&file, 1);
    file.checkpoint().unwrap();
    file
}

#[test]
fn a_checkpoint_syncs_after_some_hundred_pages_in_the_cache_and_once_past_it() {
    let did = [Some(true), Some(false), None].map(|direct| {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = filled(rt, &disk, direct);
            write_scattered(&file, 2);
            let before = (disk.counters(), file.stats());
            file.checkpoint().unwrap();
            let (now, stats) = (disk.counters(), file.stats());
            assert_eq!(stats.writes - before.1.writes, SCATTERED);
            file.close().unwrap();
            let barriers = now.barriers - before.0.barriers;
            let begun = now.write_backs_begun - before.0.write_backs_begun;
            (barriers, stats.barriers - before.1.barriers, begun)
        })
    });
    let [
        (direct, counted, begun),
        (cached, counted_cached, begun_cached),
        default,
    ] = did;
    assert_eq!(default, did[1], "except on Windows");
    // The device works while pages are copied: 8 times 64 pages for each of two syncs, and 276 pages.
    assert_eq!((begun, begun_cached), (0, 8 + 8 + 5), "{did:?}");
    // Each chunk has 512 pages.
    assert_eq!(cached - direct, 3, "{did:?}");
    assert_eq!(counted_cached - counted, 3, "{did:?}");
}

/// A later sync does not bring back what a failed sync has dropped.
#[test]
fn a_sync_between_pages_that_fails_stops_the_file_and_loses_nothing() {
    // There is a sync after each of the three parts, and at the end one of the data file and one of the map.
    for (after, file_name) in [
        (0, "pages"),
        (1, "pages"),
        (2, "pages"),
        (3, "pages"),
        (4, "map"),
    ] {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = filled(rt, &disk, None);
            write_scattered(&file, 2);
            disk.fail_calls(FailingCalls {
                calls: vec![Call::Barrier],
                how: Refusal::Medium,
                after,
                failing: 1,
            });
            let error = file.checkpoint().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            let file_name = format!("{}{file_name}", std::path::MAIN_SEPARATOR);
            let names_it = error.to_string().contains(&file_name);
            assert!(names_it, "{error}");
            disk.stop_failing_calls();
            assert_eq!(file.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
            disk.cut();
        });
        disk.crash(Failure::Power, None, 1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, large(None)).unwrap();
            let snapshot = file.snapshot().unwrap();
            for n in 0..SCATTERED {
                assert_eq!(*snapshot.page(2 * n).unwrap(), [2; PAGE][..], "page {n}");
            }
        });
    }
}

/// With threads and with a queue, a failed write of any page is reported, and nothing is lost by it.
#[test]
fn a_page_that_cannot_be_written_stops_the_checkpoint() {
    let failures = [0, 64, 511, SCATTERED - 1];
    for (blocking, call) in [
        (false, Call::Write),
        (false, Call::Complete),
        (true, Call::Write),
        (true, Call::Complete),
    ] {
        for after in failures {
            let options = SimOptions {
                blocking,
                ..SimOptions::default()
            };
            let disk = SimDisk::new(options, 1);
            let what = format!("blocking: {blocking}, {call:?} {after}");
            SimRuntime::run(1, |rt| {
                let file = filled(rt, &disk, Some(true));
                write_scattered(&file, 2);
                disk.fail_calls(FailingCalls {
                    calls: vec![call],
                    how: Refusal::Medium,
                    after,
                    failing: 1,
                });
                let error = file.checkpoint().expect_err(&what);
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{what}: {error}");
                disk.stop_failing_calls();
                disk.cut();
            });
            disk.crash(Failure::Power, None, 1);
            SimRuntime::run(1, |rt| {
                let file = open(rt, &disk, large(None)).unwrap();
                let snapshot = file.snapshot().unwrap();
                let of_2 = |n: &u64| *snapshot.page(2 * n).unwrap() == [2; PAGE][..];
                assert!((0..SCATTERED).all(|n| of_2(&n)), "{what}");
            });
        }
    }
}

/// Zeroes over adjacent pages take as few writes as contents do.
#[test]
fn discarded_pages_are_cleared_in_runs() {
    const COUNT: u64 = 1024;
    for direct in [true, false] {
        for step in [1, 3] {
            let disk = disk(1);
            SimRuntime::run(1, |rt| {
                let file = open(rt, &disk, large(Some(direct))).unwrap();
                let change = |discards: bool| {
                    let mut txn = file.begin().unwrap();
                    for n in (0..COUNT).step_by(if discards { step } else { 1 }) {
                        match discards {
                            true => txn.discard(n).unwrap(),
                            false => txn.write(n, &[1; PAGE]).unwrap(),
                        }
                    }
                    txn.commit().unwrap();
                    let before = file.stats().writes;
                    file.checkpoint().unwrap();
                    file.stats().writes - before
                };
                let written = change(false);
                let cleared = change(true);
                match step {
                    1 => assert_eq!(cleared, written, "contents take as many writes"),
                    _ => assert_eq!(cleared, COUNT.div_ceil(step as u64)),
                }
                assert!(written <= 8, "{written}");
                file.close().unwrap();
            });
        }
    }
}
