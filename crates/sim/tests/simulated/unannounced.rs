//! A prepared segment that is not in the control file yet does not belong to the log. A later opening may
//! replace it, and a reader must not continue in the segment that it has seen.

use logforce_core::{Damage, Inspector, Log, Lsn, OpenMode, Options, ReadOnly, Visit};
use logforce_sim::model::{PATH, small};
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime};
use std::time::Duration;

fn options(segment: u64) -> Options {
    small()
        .segment_size(segment)
        .idle_stamp(Duration::from_secs(3600))
}

/// Writes this number of records of 3,000 bytes, one in each batch.
fn commit(log: &Log, records: u8) -> Lsn {
    let mut end = Lsn::ORIGIN;
    for n in 0..records {
        end = log.commit(&[n; 3_000]).map_or(end, |c| c.end);
    }
    end
}

/// Number of records. They fill more segments than a reader keeps open, so that it opens them again by name.
const RECORDS: u8 = 50;

/// Makes a log of one writer that is killed at the end, with the operation `op` failing. Returns the number
/// of operations.
fn killed(disk: &SimDisk, op: u64) -> u64 {
    let ops = SimRuntime::run(1, |rt| {
        disk.fail_at(op, Fault::Io);
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, options(24 << 10));
        let log = log.expect("opens");
        commit(&log, RECORDS);
        disk.ops()
    });
    disk.crash(Failure::Process, None, 1);
    ops
}

/// Returns true if there is a segment after those that the control file names.
fn has_unannounced(disk: &SimDisk) -> bool {
    SimRuntime::run(2, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), PATH).expect("it can be inspected");
        let summary = inspector.summary();
        let mut segments = summary.segments.iter();
        summary.segments.len() > 8 && segments.any(|s| s.start >= summary.prepared_end)
    })
}

fn walk(inspector: &Inspector) -> Vec<Damage> {
    let mut damages = Vec::new();
    let walked = inspector.walk(&mut |visit| {
        if let Visit::Damage(d) = visit {
            damages.push(d.clone());
        }
        true
    });
    walked.expect("nothing fails");
    damages
}

#[test]
fn another_opening_puts_another_segment_there() {
    let new = || SimDisk::new(SimOptions::default(), 1);
    let ops = killed(&new(), u64::MAX);
    let mut found = 0;
    for op in ops - 200..ops {
        let disk = new();
        killed(&disk, op);
        if !has_unannounced(&disk) {
            continue;
        }
        found += 1;
        let there = disk.snapshot();
        for segment in [16 << 10, 64 << 10] {
            disk.restore(&there);
            SimRuntime::run(3, |rt| {
                let system = disk.system(rt);
                let before = Inspector::open(&*system, PATH).expect("it can be inspected");
                let read_only = ReadOnly::open(&*system, PATH).expect("it can be read");
                let mut follower = read_only
                    .follow_lsn(read_only.front_lsn())
                    .expect("follows");
                while follower.try_next().expect("healthy").is_some() {}
                let log = Log::open(&*system, PATH, OpenMode::OpenExisting, options(segment));
                let log = log.expect("opens");
                let end = commit(&log, RECORDS);
                let damages = walk(&before);
                assert!(damages.is_empty(), "{segment}: {damages:?}");
                let now = Inspector::open(&*system, PATH).expect("it can be inspected");
                assert_eq!(walk(&now), []);
                log.close().expect("nothing fails");
                while follower.position().lsn() < end {
                    follower.try_next().expect("healthy");
                }
            });
        }
    }
    assert!(found > 0, "no failure left one");
}
