//! Failures and panics of each operation of the workload: they are reported, no thread hangs, and all
//! acknowledged commits exist afterwards.

use super::{Subject, disks, subjects};
use crate::exhaustive::workers::{share, thorough};
use logforce_core::OpenMode;
use logforce_pages::ErrorKind;
use logforce_sim::pages::model::{Done, Step};
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime, Survival};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

fn disk() -> SimDisk {
    let options = SimOptions {
        log_lines: 60,
        ..SimOptions::default()
    };
    SimDisk::new(options, 5)
}

/// Fails operation `op`. Returns whether there is such an operation, and whether an error reported it.
fn fail_at(subject: &Subject, fault: Fault, op: u64) -> (bool, bool) {
    let disk = disk();
    disk.fail_at(op, fault);
    let ((acknowledged, error), ops) =
        SimRuntime::run(3, |rt| (subject.work(&disk, rt), disk.ops()));
    let what = format!("{:?}, {fault:?}, operation {op}: {error:?}", subject.mode);
    if let Some(e) = &error {
        let is_reported = match e.kind() {
            ErrorKind::Io | ErrorKind::Poisoned => true,
            ErrorKind::NoSpace => fault == Fault::NoSpace,
            _ => false,
        };
        assert!(is_reported, "{what}");
    }
    disk.reboot(op);
    // A commit that was refused for lack of space and a later one both exist or both do not.
    subject.check(&disk, acknowledged, &what);
    (op < ops, error.is_some())
}

#[test]
fn every_failing_operation_of_a_page_file() {
    let mut todo = Vec::new();
    for subject in subjects() {
        for fault in [Fault::Io, Fault::NoSpace] {
            todo.push((subject.clone(), fault));
        }
    }
    let reported = share(
        todo.len(),
        || 0,
        |reported, n| {
            let (subject, fault) = &todo[n];
            let step = if thorough() { 1 } else { 2 };
            for op in (n as u64 % step..).step_by(step as usize) {
                let (is_there, is_reported) = fail_at(subject, *fault, op);
                *reported += u64::from(is_reported);
                if !is_there {
                    return;
                }
            }
        },
    );
    let reported: u64 = reported.iter().sum();
    println!("exhaustive page file: {reported} failing operations were reported");
    assert!(reported > 80, "{reported}");
}

/// Number of seeds for each operation. A seed decides how much of a failed sync reaches the medium.
const SEEDS: u64 = 6;

/// Fails operation `op` and opens the file again in the same boot, where the system's cache still shows what
/// a failed sync has lost. Then grows the file over all pages that were ever dropped, closes it, and cuts the
/// power. Returns whether there is such an operation, and whether there was a file to open.
fn fail_at_and_reopen(subject: &Subject, options: &SimOptions, op: u64, seed: u64) -> (bool, bool) {
    let disk = SimDisk::new(options.clone(), seed);
    disk.fail_at(op, Fault::Io);
    let ((acknowledged, error), ops) =
        SimRuntime::run(3, |rt| (subject.work(&disk, rt), disk.ops()));
    let what = format!("{:?}, operation {op}, seed {seed}: {error:?}", subject.mode);
    disk.crash(Failure::Process, Some(Survival::Kept), op);
    if acknowledged == 0 {
        return (op < ops, false);
    }
    let expected = SimRuntime::run(7, |rt| {
        let file = subject.open(&disk, rt, OpenMode::OpenExisting);
        let file = file.unwrap_or_else(|e| panic!("{what}, opened again: {e}"));
        let (commit, mut state) = subject.look(&file).expect("it is open");
        let difference = subject.states()[commit as usize].difference(&state);
        assert_eq!(difference, None, "{what}, opened again");
        let count = subject.universe.pages().last().map_or(0, |page| page + 1);
        let done = Done::new(100, vec![Step::Grow(count)]);
        state.apply(&done, &subject.universe);
        let went_on = subject.commit(&file, &done);
        let went_on = went_on.and_then(|_| file.checkpoint());
        went_on.unwrap_or_else(|e| panic!("{what}, going on: {e}"));
        disk.cut();
        state
    });
    disk.crash(Failure::Power, Some(Survival::Lost), op);
    SimRuntime::run(9, |rt| {
        let file = subject.open(&disk, rt, OpenMode::OpenExisting);
        let found = file.and_then(|f| subject.look(&f));
        let (_, found) = found.unwrap_or_else(|e| panic!("{what}, after the cut: {e}"));
        let difference = expected.difference(&found);
        assert_eq!(difference, None, "{what}, after the cut\n{}", disk.log());
    });
    (op < ops, true)
}

#[test]
fn every_failing_operation_then_an_opening_and_a_cut() {
    let mut todo = Vec::new();
    for subject in subjects() {
        for disk in disks() {
            todo.push((subject.clone(), disk));
        }
    }
    let opened = share(
        todo.len(),
        || 0,
        |opened, n| {
            let (subject, disk) = &todo[n];
            let step = if thorough() { 1 } else { 2 };
            for op in (n as u64 % step..).step_by(step as usize) {
                for seed in 0..SEEDS {
                    let seed = op * SEEDS + seed;
                    let (is_there, is_opened) = fail_at_and_reopen(subject, disk, op, seed);
                    *opened += u64::from(is_opened);
                    if !is_there {
                        return;
                    }
                }
            }
        },
    );
    let opened: u64 = opened.iter().sum();
    println!("exhaustive page file: opened again after {opened} failing operations");
    assert!(opened > 80, "{opened}");
}

/// Makes the system panic in the middle of a call, in any thread. Returns whether there is such an
/// operation.
fn panic_at(subject: &Subject, op: u64) -> bool {
    let disk = disk();
    let acknowledged = AtomicU64::new(0);
    let ops = SimRuntime::run(3, |rt| {
        rt.tolerate_panics();
        let run = || {
            let Ok(file) = subject.open(&disk, rt, OpenMode::CreateNew) else {
                return;
            };
            disk.fail_at(op, Fault::Panic);
            for done in super::transactions(subject.mode) {
                match subject.commit(&file, &done) {
                    Ok(commit) => acknowledged.store(commit, SeqCst),
                    Err(e) => {
                        let fits = matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::Io);
                        assert!(fits, "operation {op}, {:?}: {e}", e.kind());
                        return;
                    }
                }
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(run));
        disk.ops()
    });
    disk.reboot(op);
    let what = format!("{:?}, a panic at operation {op}", subject.mode);
    subject.check(&disk, acknowledged.into_inner(), &what);
    op <= ops
}

#[test]
fn every_panic_below_a_page_file() {
    let all = subjects();
    let counts = share(
        all.len(),
        || 0,
        |count, n| {
            let step = if thorough() { 1 } else { 2 };
            for op in (n as u64 % step..).step_by(step as usize) {
                *count += 1;
                if !panic_at(&all[n], op) {
                    return;
                }
            }
        },
    );
    println!(
        "exhaustive page file: {} panics",
        counts.iter().sum::<u64>()
    );
}
