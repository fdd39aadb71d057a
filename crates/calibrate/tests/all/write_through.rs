//! Trials of the write-through limit on a simulated disk: results, duration, remaining files.

use crate::common::{Costs, EQUAL, micros, millis, names, slow};
use logforce_calibrate::{
    WRITE_THROUGH_NAME, WriteThroughCalibration, WriteThroughLimit, WriteThroughMemory,
    WriteThroughSite, choose_write_through, known_write_through, measure_write_through,
};
use logforce_device::{Access, FilesystemKind, OpenFile, Runtime};
use logforce_testkit::{Call, FailingCalls, Refusal, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(500);

fn options() -> SimOptions {
    SimOptions {
        log_lines: 0,
        blocking: true,
        ..SimOptions::default()
    }
}

/// Measures with these costs. Returns the evidence and the duration.
fn found(costs: Costs, seed: u64) -> (WriteThroughCalibration, Duration) {
    let disk = SimDisk::new(options(), seed);
    SimRuntime::run(seed, |rt| {
        let dir = slow(&disk, rt, costs);
        let (facts, memory) = (dir.facts().unwrap(), WriteThroughMemory::new());
        let runtime: Arc<dyn Runtime> = Arc::new(rt.clone());
        let stores = [dir.clone()];
        let site = WriteThroughSite {
            dir: &dir,
            runtime: &runtime,
            facts: &facts,
            stores: &stores,
            memory: &memory,
        };
        assert_eq!(known_write_through(&site), None);
        let began = rt.now();
        let found = measure_write_through(&site, BUDGET).unwrap();
        let took = rt.now() - began;
        assert_eq!(names(&dir), [WRITE_THROUGH_NAME]);
        // A later opening, in this process or another, measures nothing.
        let began = rt.now();
        let again = choose_write_through(&site, BUDGET);
        let other = WriteThroughMemory::new();
        let stored = known_write_through(&WriteThroughSite {
            memory: &other,
            ..site
        });
        assert!(rt.now() - began < millis(10));
        assert_eq!(again.as_ref(), Some(&found));
        assert_eq!(stored.map(|s| s.decided.limit), Some(found.decided.limit));
        (found, took)
    })
}

fn through(micros: u64) -> Costs {
    Costs {
        through: Duration::from_micros(micros),
        noise: 0.1,
        ..EQUAL
    }
}

#[test]
fn the_crossover_is_where_the_costs_put_it() {
    // 8 are in flight at once: 16 runs take twice as long as 8, 32 four times.
    for (micros, runs) in [(12, 8..=32), (30, 4..=16), (90, 1..=1), (200, 0..=0)] {
        let (found, took) = found(through(micros), 0);
        let decided = &found.decided;
        assert!(runs.contains(&decided.limit.runs), "{micros}: {decided:#?}");
        assert!(took < BUDGET + millis(20), "{took:?}");
        assert!(found.turns >= 12, "{found:?}");
    }
}

#[test]
fn a_slow_device_is_as_if_nothing_was_measured() {
    let costs = Costs {
        through: millis(20),
        barrier: millis(8),
        mib: micros(500),
        noise: 0.1,
    };
    let (found, took) = found(costs, 1);
    assert_eq!(found.decided.limit, WriteThroughLimit::UNMEASURED);
    assert!(took < BUDGET + millis(100), "{took:?}");
}

/// A failed write ends a trial with threads (`slow` has no queue) and one with a queue.
#[test]
fn a_write_that_fails_ends_the_measuring() {
    // Fails one write after the other, in the middle of the writes of several runs.
    let nth = 400..430_u64;
    for (by_queue, after) in [false, true]
        .into_iter()
        .flat_map(|q| nth.clone().map(move |n| (q, n)))
    {
        let disk = SimDisk::new(options(), 2);
        SimRuntime::run(2, |rt| {
            let dir = match by_queue {
                true => (disk.system(rt).make_directory(Path::new("/log"))).unwrap(),
                false => slow(&disk, rt, EQUAL),
            };
            let how = OpenFile {
                access: Access::CreateNew,
                direct: true,
            };
            let queue = dir.open("probe", how).unwrap().write_queue(8);
            assert_eq!(queue.is_some(), by_queue);
            dir.remove("probe").unwrap();
            let (facts, memory) = (dir.facts().unwrap(), WriteThroughMemory::new());
            let runtime: Arc<dyn Runtime> = Arc::new(rt.clone());
            let site = WriteThroughSite {
                dir: &dir,
                runtime: &runtime,
                facts: &facts,
                stores: &[],
                memory: &memory,
            };
            disk.fail_calls(FailingCalls {
                calls: vec![Call::Write],
                how: Refusal::Medium,
                after,
                failing: 1,
            });
            assert!(
                measure_write_through(&site, BUDGET).is_err(),
                "by a queue: {by_queue}, write {after}"
            );
            disk.stop_failing_calls();
            assert_eq!(names(&dir), [""; 0], "what was made for it is gone");
        });
    }
}

#[test]
fn where_nothing_should_be_measured_nothing_is() {
    let disk = SimDisk::new(options(), 1);
    SimRuntime::run(1, |rt| {
        let dir = slow(&disk, rt, EQUAL);
        let memory = WriteThroughMemory::new();
        let runtime: Arc<dyn Runtime> = Arc::new(rt.clone());
        for kind in [FilesystemKind::Volatile, FilesystemKind::Remote] {
            let mut facts = dir.facts().unwrap();
            facts.kind = kind;
            let site = WriteThroughSite {
                dir: &dir,
                runtime: &runtime,
                facts: &facts,
                stores: &[],
                memory: &memory,
            };
            assert_eq!(choose_write_through(&site, BUDGET), None);
        }
        assert_eq!(names(&dir), [""; 0]);
    });
}
