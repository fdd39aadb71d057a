//! Failing devices and full devices.

use crate::crash::{AFTER, Case, bulk, case, spanning, truncation};
use logforce_core::{ErrorKind, Method};
use logforce_sim::model::{lock, small};
use logforce_sim::stride;
use logforce_sim::workload::{Image, Step, WorkloadOutcome, World};
use logforce_testkit::{Failure, Fault, Refusal, SimOptions, Survival};

/// Number of times that a fault had each effect.
#[derive(Debug, Default)]
struct Coverage {
    poisoned: usize,
    refused: usize,
    not_opened: usize,
}

impl Case {
    /// Makes every `stride`th operation fail once. The log either goes on or stops, and reports which. All
    /// records that the next opening shows are on the medium.
    fn fail_everywhere(&self, fault: Fault, every: usize) -> Coverage {
        let [steps] = &self.threads[..] else {
            panic!("one thread")
        };
        let whole = self.world("whole");
        assert!(matches!(
            whole.work_through(1, steps),
            WorkloadOutcome::Fine
        ));
        let mut coverage = Coverage::default();
        for op in (0..whole.disk.ops()).step_by(every) {
            let world = self.world(&format!("{fault:?} at {op}"));
            world.disk.fail_at(op, fault);
            let outcome = world.work_through(1, steps);
            let _report = world.report(format!("after {outcome:?}"));
            self.check_outcome(&world, fault, &outcome);
            match outcome {
                WorkloadOutcome::Fine => {}
                WorkloadOutcome::Poisoned => coverage.poisoned += 1,
                WorkloadOutcome::Refused(_) => coverage.refused += 1,
                WorkloadOutcome::NotOpened(_) => coverage.not_opened += 1,
            }
            let image = world.image();
            if world.failed_operation().contains("barrier control Data") {
                self.cut_the_reopening(&world, &image, op);
            }
            for kill in [false, true] {
                world.restore(&image);
                if kill {
                    world.disk.crash(Failure::Process, None, op);
                }
                assert!(world.try_open(op, Failure::Process), "cannot be reopened");
                let survival = if op % 3 == 0 {
                    None
                } else {
                    Some(Survival::Lost)
                };
                world.disk.crash(Failure::Power, survival, op);
                let after = if kill { &[] } else { &AFTER[..] };
                let recovered = world.recover(op, Failure::Power, after);
                recovered.unwrap_or_else(|e| panic!("{}: {e}", world.name));
            }
        }
        println!("{} {fault:?}: {coverage:?}", self.name);
        coverage
    }

    /// After a failed write of the control file the system's cache may show bytes that the medium never
    /// got. A reopening that builds on them is cut by a power failure too.
    fn cut_the_reopening(&self, world: &World, image: &Image, seed: u64) {
        world.restore(image);
        world.try_open(seed, Failure::Process);
        let steps = world.disk.ops();
        for step in (seed % 5..steps).step_by(5) {
            world.restore(image);
            world.disk.crash(Failure::Process, None, seed);
            world.disk.cut_at(step);
            world.try_open(seed, Failure::Process);
            world.disk.crash(Failure::Power, None, seed ^ step << 20);
            let recovered = world.recover(seed, Failure::Power, &[]);
            recovered.unwrap_or_else(|e| panic!("{}, reopening cut at {step}: {e}", world.name));
        }
    }

    fn check_outcome(&self, world: &World, fault: Fault, outcome: &WorkloadOutcome) {
        let failed = world.failed_operation();
        let data = ["submit", "complete", "barrier"]
            .iter()
            .any(|w| failed.contains(w));
        if failed.contains("logforce-write") {
            assert!(
                matches!(outcome, WorkloadOutcome::Poisoned),
                "{failed}: {outcome:?}"
            );
        }
        if !data || failed.contains("logforce-prepare") && !failed.contains("control") {
            // Preparing a segment and changing names fail cleanly.
            assert!(
                !matches!(outcome, WorkloadOutcome::Poisoned),
                "{failed}: {outcome:?}"
            );
        }
        if let WorkloadOutcome::Refused(e) = outcome {
            let kind = match fault {
                Fault::Io | Fault::Refused(_) => ErrorKind::Io,
                Fault::NoSpace => ErrorKind::NoSpace,
                Fault::Panic => unreachable!("these tests inject none"),
            };
            assert_eq!(e.kind(), kind, "{failed}: {e}");
        }
    }
}

#[test]
fn no_memory_stops_the_log_or_is_refused() {
    let fault = Fault::Refused(Refusal::NoMemory);
    let coverage = case("enomem", vec![truncation()]).fail_everywhere(fault, stride(1));
    assert!(
        coverage.poisoned > 20 / stride(1) && coverage.refused > 5 / stride(1),
        "{coverage:?}"
    );
}

#[test]
fn an_error_stops_the_log_or_is_refused() {
    for threads in [truncation(), bulk()] {
        let coverage = case("eio", vec![threads]).fail_everywhere(Fault::Io, stride(1));
        assert!(
            coverage.poisoned > 20 / stride(1) && coverage.refused > 5 / stride(1),
            "{coverage:?}"
        );
    }
}

#[test]
fn an_error_where_nothing_reads_past_the_cache() {
    for method in [Method::Fdatasync, Method::Dsync] {
        let mut case = case("eio, no direct", vec![truncation()]);
        case.disk = SimOptions {
            direct: false,
            ..SimOptions::default()
        };
        case.options = small().method(method);
        case.fail_everywhere(Fault::Io, stride(3));
    }
}

#[test]
fn an_error_under_other_methods() {
    for method in [Method::Fsync, Method::DirectFdatasync] {
        let mut case = case("eio", vec![spanning()]);
        case.options = small().method(method);
        case.fail_everywhere(Fault::Io, stride(3));
    }
}

#[test]
fn no_space_at_any_operation() {
    let coverage = case("enospc", vec![truncation()]).fail_everywhere(Fault::NoSpace, stride(2));
    assert!(coverage.poisoned > 40 / stride(2), "{coverage:?}");
}

/// On a disk that fills up, appends are refused before acceptance, and accepted again once there is space.
#[test]
fn a_full_disk_is_refused_cleanly() {
    let disk = SimOptions {
        capacity: Some(256 * 1024 + 8 * 24 * 1024),
        ..SimOptions::default()
    };
    let world = World::new("full disk", disk, small(), 1);
    let fill = vec![Step::Commit(4_000); 60];
    let WorkloadOutcome::Refused(e) = world.work_through(1, &fill) else {
        panic!("it never filled up")
    };
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
    let full = lock(&world.model).live().len();
    assert!((5..50).contains(&full), "{full} records");
    // Without any space the log can be opened, read and truncated; then it goes on.
    let steps = [
        Step::Read,
        Step::Front(70),
        Step::Commit(4_000),
        Step::Reopen,
        Step::Commit(4_000),
        Step::Read,
    ];
    let outcome = world.work_through(2, &steps);
    assert!(matches!(outcome, WorkloadOutcome::Fine), "{outcome:?}");
    let now = lock(&world.model).live().len();
    assert!(now < full, "{now} of {full} records");
    world
        .recover(3, Failure::Process, &[Step::Front(100), Step::Commit(10)])
        .expect("recover");
}

/// A log fills the disk again and again, and the power is cut anywhere.
#[test]
fn a_crash_on_a_full_disk() {
    let mut steps = Vec::new();
    for _ in 0..2 {
        steps.extend(vec![Step::Commit(6_000); 30]);
        steps.push(Step::Front(80));
    }
    let mut case = case("full", vec![steps]);
    case.disk.capacity = Some(256 * 1024 + 7 * 24 * 1024);
    let whole = case.world("whole");
    assert!(matches!(
        whole.work_through(1, &case.threads[0]),
        WorkloadOutcome::Refused(_)
    ));
    for op in (0..whole.disk.ops()).step_by(stride(2)) {
        let world = case.world(&format!("cut at {op}"));
        world.disk.cut_at(op);
        world.work_through(1, &case.threads[0]);
        world.disk.reboot(op);
        let recovered = world.recover(op, Failure::Power, &[Step::Front(50)]);
        recovered.unwrap_or_else(|e| panic!("{}: {e}", world.name));
    }
}

/// A copy-on-write filesystem needs space to overwrite, so a full disk stops the log.
#[test]
fn a_full_disk_under_copy_on_write() {
    let disk = SimOptions {
        in_place: false,
        capacity: Some(400 * 1024),
        ..SimOptions::default()
    };
    let world = World::new("full cow", disk, small(), 1);
    let outcome = world.work_through(1, &vec![Step::Commit(4_000); 100]);
    assert!(!matches!(outcome, WorkloadOutcome::Fine), "{outcome:?}");
    world.disk.change(|o| o.capacity = None);
    world.recover(2, Failure::Process, &AFTER).expect("recover");
}
