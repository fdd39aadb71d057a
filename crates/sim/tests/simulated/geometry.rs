//! Devices and options that change between openings.

use crate::common::{block_on, opened};
use logforce_core::{Batch, ErrorKind, Method, Options};
use logforce_sim::model::{lock, small};
use logforce_sim::stride;
use logforce_sim::workload::{Step, WorkloadOutcome, World};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime};

fn fill() -> Vec<Step> {
    let mut steps = vec![Step::Commit(3_000); 8];
    steps.extend([Step::Append(9_000), Step::Commit(500), Step::Append(40_000)]);
    steps.extend([Step::Read, Step::Back(1), Step::Commit(7)]);
    steps
}

fn options(unit: u32, method: Method) -> Options {
    Options::new()
        .method(method)
        .segment_size(u64::from(unit) * 5)
        .max_batch_size(u64::from(unit) * 2)
        .buffer_size(u64::from(unit) * 4)
        .live_stats(false)
}

/// A log that crashed on one device is opened on a device with another write unit, and then again on the
/// first.
#[test]
fn the_write_unit_changes() {
    let (direct, cached) = (Method::DirectDsync, Method::Fdatasync);
    for (first, second, method, medium_reads) in [
        (4096, 8192, direct, true),
        (4096, 16384, cached, true),
        (8192, 4096, direct, true),
        (16384, 8192, cached, true),
        // The tail is written again, bypassing the cache only if its write unit allows that.
        (4096, 16384, direct, false),
    ] {
        for op in (40..220).step_by(stride(4)) {
            let name = format!("{first} to {second}, cut at {op}");
            let disk = SimOptions {
                physical_sector: first,
                medium_reads,
                ..SimOptions::default()
            };
            let mut world = World::new(name, disk, options(first, method), 1);
            world.disk.cut_at(op);
            let _ = world.work(op, &[fill()]);
            for unit in [second, first, second] {
                world.disk.crash(Failure::Power, None, op);
                world.disk.change(|o| o.physical_sector = unit);
                world.options = options(unit, method);
                let recovered = world.recover(op, Failure::Power, &[]);
                recovered.unwrap_or_else(|e| panic!("{}: {e}", world.name));
                world.disk.cut_at(op / 2 + 40);
                let _ = world.work(op, &[fill()]);
            }
            world.disk.crash(Failure::Power, None, op);
            let recovered = world.recover(op, Failure::Power, &fill());
            recovered.unwrap_or_else(|e| panic!("{}: {e}", world.name));
            assert!(lock(&world.model).live().len() > 10);
        }
    }
}

/// After a change from short to long segments, the prepared short ones are used up first.
#[test]
fn the_segment_length_changes() {
    for (first, second) in [(16 << 10, 256 << 10), (256 << 10, 16 << 10)] {
        let mut world = World::new(format!("{first}"), SimOptions::default(), small(), 1);
        world.options = small().segment_size(first);
        // The refused record leaves all its segments prepared.
        world.disk.change(|o| o.capacity = Some(600 << 10));
        let outcome = world.work_through(1, &[Step::Commit(10), Step::Append(900_000)]);
        assert!(
            matches!(outcome, WorkloadOutcome::Refused(_)),
            "{outcome:?}"
        );
        world.disk.change(|o| o.capacity = None);
        world.options = small().segment_size(second);
        let steps = [
            Step::Commit(300_000),
            Step::Commit(10),
            Step::Read,
            Step::Front(50),
        ];
        let recovered = world.recover(2, Failure::Process, &steps);
        recovered.unwrap_or_else(|e| panic!("{first} to {second}: {e}"));
    }
}

/// The log prepares and forces each segment of an append separately, and keeps it open. An append over
/// thousands of segments is refused before anything is accepted.
#[test]
fn an_append_fills_a_bounded_number_of_segments() {
    const SEGMENT: usize = 16 << 10;
    const LONGEST: usize = 128 * SEGMENT;
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let options = || small().segment_size(SEGMENT as u64);
        let log = opened(&disk, rt, options());
        let tail = log.tail_lsn();
        // A second record adds 8 bytes.
        let (first, second) = (vec![1; LONGEST - SEGMENT - 8], vec![2; SEGMENT]);
        let longer = vec![1; first.len() + 8];
        for refused in [
            log.commit(vec![1; LONGEST + 1]).map(drop),
            log.commit(Batch::of(&[&longer, &second])).map(drop),
            block_on(rt, log.reserve(LONGEST + 1)).map(drop),
            block_on(rt, log.commit_async(vec![1; LONGEST + 1])).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
            assert!(refused.to_string().contains("segment_size"), "{refused}");
        }
        assert_eq!(log.tail_lsn(), tail);
        log.commit(vec![1; LONGEST])
            .expect("this length is accepted");
        log.commit(Batch::of(&[&first, &second]))
            .expect("a batch of this length is accepted");
        log.close().expect("nothing fails");
        let log = opened(&disk, rt, options());
        assert_eq!(log.read_from(log.front_lsn()).unwrap().count(), 3);
        log.close().expect("nothing fails");
    });
}
