//! Each operation of the workload fails once, or panics: it is reported, nobody hangs, and what was
//! acknowledged is there afterwards.

use super::{Subject, subjects};
use crate::exhaustive::workers::{share, thorough};
use logforce_core::OpenMode;
use logforce_pages::ErrorKind;
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

fn disk() -> SimDisk {
    let options = SimOptions {
        log_lines: 60,
        ..SimOptions::default()
    };
    SimDisk::new(options, 5)
}

/// Fails operation `op`. Returns whether there is such an operation, and whether an error told of it.
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
    // A commit that was refused for lack of space and one that came after it are both there or not.
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

/// The system panics in the middle of a call, in whatever thread. Returns whether there is such an
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
