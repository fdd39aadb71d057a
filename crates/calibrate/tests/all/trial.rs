//! Trials on a simulated disk: results, duration, remaining files.

use crate::common::{ALL, Costs, EQUAL, micros, millis, names, slow};
use logforce_calibrate::{Limits, Trial, decide, measure};
use logforce_device::{Directory, Method, Runtime};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::sync::Arc;
use std::time::Duration;

fn options() -> SimOptions {
    SimOptions {
        log_lines: 0,
        blocking: true,
        ..SimOptions::default()
    }
}

fn trial(dir: &Arc<dyn Directory>, rt: &SimRuntime, limits: Limits) -> Trial {
    let facts = dir.facts().unwrap();
    measure(dir, rt, &facts, 4096, &ALL, limits)
}

fn on(options: SimOptions, costs: Costs, seed: u64) -> (Trial, Vec<String>) {
    let disk = SimDisk::new(options, seed);
    SimRuntime::run(seed, |rt| {
        let dir = slow(&disk, rt, costs);
        let trial = trial(&dir, rt, Limits::AT_OPENING);
        (trial, names(&dir))
    })
}

#[test]
fn what_is_faster_wins_and_what_is_equal_does_not() {
    let half = Costs {
        barrier: micros(45),
        ..EQUAL
    };
    let dear = Costs {
        barrier: micros(200),
        ..EQUAL
    };
    for in_place in [true, false] {
        for seed in 0..4 {
            for (costs, method) in [
                (EQUAL, Method::DirectDsync),
                (half, Method::DirectFdatasync),
                (dear, Method::DirectDsync),
            ] {
                let options = SimOptions {
                    in_place,
                    ..options()
                };
                let (trial, left) = on(options, costs, seed);
                assert_eq!(trial.failure, None);
                let d = decide(&trial.samples, Method::DirectDsync);
                assert_eq!(d.method, method, "{d:?}");
                assert!(d.decided || method == Method::DirectDsync, "{d:?}");
                assert_eq!(left, [""; 0]);
                let sizes = trial.samples.sizes();
                assert_eq!(sizes, Some((4096, 16384)));
                assert!(trial.samples.turns.len() > 100, "{:?}", trial.spent);
                assert!(trial.spent <= millis(300), "{:?}", trial.spent);
            }
        }
    }
}

#[test]
fn the_budget_holds_on_slow_disks() {
    for (barrier, mib) in [(5, 10), (16, 20), (50, 100), (50, 400), (400, 10)] {
        let costs = Costs {
            through: millis(barrier),
            barrier: millis(barrier),
            mib: millis(mib),
            noise: 0.5,
        };
        let (trial, left) = on(options(), costs, 3);
        assert_eq!(trial.failure, None);
        assert_eq!(left, [""; 0]);
        // Allows one more operation: a barrier, or a write of a quarter of a MiB.
        let one = millis(barrier.max(mib / 4)).mul_f64(1.5);
        assert!(
            trial.spent <= millis(300) + one,
            "{:?} with {costs:?}",
            trial.spent
        );
        let d = decide(&trial.samples, Method::DirectDsync);
        assert_eq!(d.method, Method::DirectDsync, "{d:?}");
        if barrier >= 16 {
            assert!(!d.decided, "{d:?}");
        }
    }
}

#[test]
fn it_ends_after_so_many_turns() {
    let disk = SimDisk::new(options(), 1);
    SimRuntime::run(1, |rt| {
        let dir = slow(&disk, rt, EQUAL);
        let limits = Limits {
            budget: Duration::from_secs(100),
            turns: 20,
        };
        let trial = trial(&dir, rt, limits);
        assert_eq!(trial.samples.turns.len(), 20);
        assert!(trial.spent < millis(100), "{:?}", trial.spent);
    });
}

/// If any operation of a trial fails, there are no samples, the default is used, and no file is left.
#[test]
fn faults_give_the_default_and_leave_nothing() {
    let limits = Limits {
        budget: millis(300),
        turns: 3,
    };
    let run = |disk: &SimDisk, fault: Option<(u64, Fault)>| {
        SimRuntime::run(1, |rt| {
            let dir = slow(disk, rt, EQUAL);
            let before = disk.ops();
            if let Some((op, fault)) = fault {
                disk.fail_at(before + op, fault);
            }
            let trial = trial(&dir, rt, limits);
            (trial, names(&dir), disk.ops() - before)
        })
    };
    let (whole, _, ops) = run(&SimDisk::new(options(), 1), None);
    assert_eq!(whole.failure, None);
    for op in 0..ops {
        for fault in [Fault::Io, Fault::NoSpace] {
            let (trial, left, _) = run(&SimDisk::new(options(), 1), Some((op, fault)));
            // If the removal itself fails, the file stays until the next trial.
            if op + 1 < ops {
                assert_eq!(left, [""; 0], "operation {op}");
            } else {
                assert_eq!(left.len(), 1);
            }
            assert!(trial.failure.is_some(), "operation {op}");
            let d = decide(&trial.samples, Method::DirectDsync);
            assert_eq!((d.method, d.decided), (Method::DirectDsync, false));
        }
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_left_as_it_was() {
    let options = SimOptions {
        capacity: Some(1 << 20),
        ..options()
    };
    let (trial, left) = on(options, EQUAL, 1);
    assert!(trial.failure.unwrap().contains("no space"));
    assert_eq!(left, [""; 0]);
}

#[test]
fn what_a_crash_left_is_removed_by_the_next_trial() {
    let disk = SimDisk::new(options(), 1);
    disk.put_file("/log", "control", b"not ours");
    disk.put_file("/log", "0123456789abcdef.tmp", b"not ours either");
    SimRuntime::run(1, |rt| {
        let dir = slow(&disk, rt, EQUAL);
        dir.sync().unwrap();
        disk.cut_at(disk.ops() + 40);
        assert!(trial(&dir, rt, Limits::AT_OPENING).failure.is_some());
    });
    disk.crash(logforce_testkit::Failure::Process, None, 1);
    SimRuntime::run(2, |rt| {
        let dir = slow(&disk, rt, EQUAL);
        assert_eq!(names(&dir).len(), 3, "{:?}", names(&dir));
        assert_eq!(trial(&dir, rt, Limits::AT_OPENING).failure, None);
        assert_eq!(names(&dir), ["0123456789abcdef.tmp", "control"]);
    });
}

#[test]
fn a_file_that_somebody_removes_meanwhile_brings_no_samples() {
    let disk = SimDisk::new(options(), 1);
    SimRuntime::run(1, |rt| {
        let dir = slow(&disk, rt, EQUAL);
        let other = dir.clone();
        let runtime = rt.clone();
        let body = move || {
            runtime.sleep(millis(100));
            for name in names(&other) {
                other.remove(&name).unwrap();
            }
        };
        let thread = rt.spawn("other", Box::new(body)).unwrap();
        let trial = trial(&dir, rt, Limits::AT_OPENING);
        thread.join().unwrap();
        assert!(trial.failure.unwrap().contains("another program"));
        assert_eq!(trial.samples.turns, []);
    });
}
