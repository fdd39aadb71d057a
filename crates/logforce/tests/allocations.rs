//! How often a commit allocates memory, in each way to commit. Alone in its program: the allocator that
//! counts is the process'.
#![cfg(target_os = "linux")]

#[path = "all/common/mod.rs"]
mod common;

use common::{Way, methods, options, temp};
use logforce::Method;
use std::time::Duration;

const COMMITS: u64 = 1000;

/// Allocations of a commit, none of which grows with the record. A write: the job's batches, the
/// memory that comes back from them, the writes in flight, the segments that were written to, the
/// jobs whose waiters are woken. A barrier after it: the segments that it covers, and once more the
/// jobs and the segments that are done.
fn expected(method: Method) -> u64 {
    match method {
        Method::Fsync | Method::Fdatasync | Method::DirectFdatasync => 10,
        _ => 5,
    }
}

#[test]
fn allocations_of_a_commit() {
    let home = temp();
    let all = methods(home.path());
    for (method, way) in all.into_iter().flat_map(|m| Way::ALL.map(|w| (m, w))) {
        let options = options()
            .segment_size(8 << 20)
            .tuning(
                logforce::Tuning::new()
                    .idle_stamp(Duration::MAX)
                    .live_stats(false),
            )
            .method(method);
        let log = logforce::create_new(
            home.path().join(format!("{method}-{}", way.name())),
            options,
        )
        .unwrap();
        log.commit(b"the first").unwrap();
        let begun = way.begin(&log);
        let commit = || {
            for _ in 0..COMMITS {
                way.make_durable(&log, b"one coffee, 2.50");
            }
        };
        // Of this thread alone.
        let counted = allocation_counter::measure(commit).count_total;
        println!("{method}, {way:?}: {counted} allocations in {COMMITS} commits");
        // Now and then a list of the log's grows.
        let most = expected(method) * COMMITS + COMMITS / 20;
        assert!(
            counted <= most,
            "{method}, {way:?}: {counted} in {COMMITS} commits"
        );
        drop(begun);
        log.close().unwrap();
    }
}
