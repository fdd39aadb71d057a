//! Crashes at every operation of the workload and of the opening after it, and all pairs of both.

use super::{Subject, disks, subjects};
use crate::exhaustive::workers::{share, thorough};
use logforce_core::OpenMode;
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};

/// Kinds of crashes, and what survives them.
const KINDS: [(Failure, Survival); 8] = [
    (Failure::Power, Survival::Lost),
    (Failure::Power, Survival::Sectors),
    (Failure::Process, Survival::Kept),
    (Failure::Power, Survival::Writes),
    (Failure::Os, Survival::Prefix),
    (Failure::Power, Survival::Kept),
    (Failure::Power, Survival::Prefix),
    (Failure::Process, Survival::Sectors),
];

/// Returns the number of operations of the whole workload.
fn operations(subject: &Subject, disk: &SimOptions) -> u64 {
    let disk = SimDisk::new(disk.clone(), 5);
    let (_, error) = SimRuntime::run(3, |rt| subject.work(&disk, rt));
    assert!(error.is_none(), "{error:?}");
    disk.ops()
}

/// Makes the crash at `op`, and then some or all of the crashes in the recovery after it.
fn crash_at(subject: &Subject, options: &SimOptions, op: u64, pairs: &mut u64) {
    let disk = SimDisk::new(options.clone(), 5);
    disk.cut_at(op);
    let (acknowledged, error) = SimRuntime::run(3, |rt| subject.work(&disk, rt));
    assert!(disk.is_cut(), "{error:?}");
    let left = disk.snapshot();
    for (n, (failure, survival)) in (0..).zip(KINDS) {
        // The cases left out at this operation are tried at its neighbours.
        if !thorough() && !(op + n).is_multiple_of(4) {
            continue;
        }
        let what = format!(
            "{:?}, operation {op}, {failure:?}, {survival:?}",
            subject.mode
        );
        disk.restore(&left);
        disk.crash(failure, Some(survival), op * 31 + n);
        let crashed = disk.snapshot();
        subject.check(&disk, acknowledged, &what);
        if !thorough() && !(op + n).is_multiple_of(24) {
            continue;
        }
        for second in 0.. {
            disk.restore(&crashed);
            // A new boot, in which operations count from 0.
            disk.crash(Failure::Process, Some(Survival::Kept), second);
            disk.cut_at(second);
            SimRuntime::run(4, |rt| {
                let _ = subject.open(&disk, rt, OpenMode::OpenOrCreate);
            });
            let is_over = !disk.is_cut();
            disk.crash(Failure::Power, Some(KINDS[(second % 2) as usize].1), second);
            subject.check(&disk, acknowledged, &format!("{what}, then {second}"));
            *pairs += 1;
            if is_over {
                assert!(second > 2);
                break;
            }
        }
    }
}

#[test]
fn every_crash_of_a_page_file_and_every_pair() {
    let mut todo = Vec::new();
    for subject in subjects() {
        for disk in disks() {
            let all = operations(&subject, &disk);
            assert!(all > 40, "{all}");
            let some = if thorough() { 1 } else { 7 };
            let skipped = todo.len() as u64 % some;
            let ops = (skipped..all).step_by(some as usize);
            todo.extend(ops.map(|op| (subject.clone(), disk.clone(), op)));
        }
    }
    let pairs = share(
        todo.len(),
        || 0,
        |pairs, n| {
            let (subject, disk, op) = &todo[n];
            crash_at(subject, disk, *op, pairs);
        },
    );
    println!(
        "exhaustive page file: {} first crashes, {} pairs",
        todo.len(),
        pairs.iter().sum::<u64>()
    );
}
