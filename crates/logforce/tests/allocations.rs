//! Number of memory allocations of a commit, for each way to commit. This test is a separate program, because
//! the counting allocator belongs to the process.
#![cfg(target_os = "linux")]

#[path = "all/common/mod.rs"]
mod common;

use common::{Way, methods, options, temp};
use logforce::Method;
use std::time::Duration;

const COMMITS: u64 = 1000;

/// Returns the number of allocations of a commit. None of them grows with the record. A write allocates lists
/// of the job's batches, of the buffers that they return, of the writes in flight, of the written segments,
/// and of the jobs whose waiters are woken. A barrier allocates lists of the segments that it covers, and
/// again of the finished jobs and segments.
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
        // Counts only this thread.
        let counted = allocation_counter::measure(commit).count_total;
        println!("{method}, {way:?}: {counted} allocations in {COMMITS} commits");
        // Sometimes a list of the log grows.
        let most = expected(method) * COMMITS + COMMITS / 20;
        assert!(
            counted <= most,
            "{method}, {way:?}: {counted} in {COMMITS} commits"
        );
        drop(begun);
        log.close().unwrap();
    }
}
