//! Number of memory allocations of a commit, for each way to commit. This test is a separate program, because
//! the counting allocator belongs to the process.
#![cfg(target_os = "linux")]

#[path = "all/common/mod.rs"]
mod common;

use common::{Way, commit_replicated, methods, occupy_writer, options, temp};
use logforce::replica::ReplicaOptions;
use logforce::{Log, Method};
use std::path::Path;
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

fn open(dir: &Path, method: Method) -> Log {
    let options = options()
        .segment_size(8 << 20)
        .tuning(
            logforce::Tuning::new()
                .idle_stamp(Duration::MAX)
                .live_stats(false),
        )
        .method(method);
    let log = logforce::create_new(dir, options).unwrap();
    log.commit(b"the first").unwrap();
    log
}

#[test]
fn allocations_of_a_commit() {
    let home = temp();
    let all = methods(home.path());
    for (method, way) in all.into_iter().flat_map(|m| Way::ALL.map(|w| (m, w))) {
        let log = open(
            &home.path().join(format!("{method}-{}", way.name())),
            method,
        );
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

/// Allocations of a commit for its handle, and for the chunk that the replica reads.
const REPLICA: u64 = 6;

#[test]
fn allocations_of_a_replicated_commit() {
    let home = temp();
    for method in methods(home.path()) {
        let log = open(&home.path().join(method.name()), method);
        let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
        let occupied = occupy_writer(&log);
        while replica.read(1 << 20).unwrap().is_some() {}
        let commit = || {
            for _ in 0..COMMITS {
                commit_replicated(&log, &mut replica, b"one coffee, 2.50");
            }
        };
        let counted = allocation_counter::measure(commit).count_total;
        println!("{method}: {counted} allocations in {COMMITS} replicated commits");
        let most = (expected(method) + REPLICA) * COMMITS + COMMITS / 20;
        assert!(counted <= most, "{method}: {counted} in {COMMITS} commits");
        drop(occupied);
        log.close().unwrap();
    }
}
