//! The simulator finds planted bugs in a toy log, and passes the correct one.

use crate::toy::{BLOCKS, Bug, Style, Toy};
use logforce_testkit::{Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Number of operations of a whole workload with a barrier after each write.
const OPS: u64 = 10 + 3 * BLOCKS;

/// Creates a log and appends. After an error opens it once more and continues, as a program would.
fn workload(disk: &SimDisk, seed: u64, style: Style, bug: Bug, acked: &AtomicU64) {
    let append_from = |toy: Toy, first: u64| -> io::Result<()> {
        (first..BLOCKS).try_for_each(|n| toy.append(n, acked))
    };
    SimRuntime::run(seed, |rt| {
        let sys = disk.system(rt);
        let first = Toy::create(&*sys, style, bug).and_then(|toy| append_from(toy, 0));
        if first.is_err() && !disk.is_cut() {
            let again = || -> io::Result<()> {
                let toy = Toy::open(&*sys, style, bug)?;
                let n = toy.recover()?;
                acked.store(n, SeqCst);
                append_from(toy, n)
            };
            let _ = again();
        }
    });
}

/// Runs a workload with at most one fault and a power cut at some operation. Returns the loss, if any.
fn run(seed: u64, bug: Bug, options: SimOptions) -> Option<String> {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(options, seed);
    let style = Style {
        direct: rng.one_in(2),
        through: rng.one_in(3),
    };
    if rng.one_in(2) {
        disk.fail_at(rng.below(OPS), rng.pick(&[Fault::Io, Fault::NoSpace]));
    }
    disk.cut_at(rng.below(OPS + 10));
    let acked = AtomicU64::new(0);
    workload(&disk, seed, style, bug, &acked);
    // Crashes several times during recovery.
    for _ in 0..rng.below(3) {
        disk.reboot(rng.bits());
        disk.cut_at(rng.below(2 * BLOCKS));
        SimRuntime::run(seed, |rt| {
            let _ = Toy::open(&*disk.system(rt), style, bug).and_then(|toy| toy.recover());
        });
    }
    disk.reboot(rng.bits());
    let found = SimRuntime::run(seed, |rt| {
        Toy::open(&*disk.system(rt), style, bug).and_then(|toy| toy.recover())
    });
    let acked = acked.into_inner();
    match found {
        Ok(n) if n >= acked => None,
        Err(_) if acked == 0 => None,
        other => Some(format!(
            "seed {seed}: {acked} acknowledged, {other:?}\n{}",
            disk.log()
        )),
    }
}

#[test]
fn the_correct_toy_loses_nothing() {
    for seed in 0..6000 {
        if let Some(loss) = run(seed, Bug::None, SimOptions::random(seed)) {
            panic!("{loss}");
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    let bugs = [
        (Bug::AckBeforeBarrier, 100),
        (Bug::RenameWithoutSync, 100),
        (Bug::ThroughLeavesNeighbour, 100),
        (Bug::RetriesBarrier, 500),
        (Bug::TrustsCache, 500),
        (Bug::OtherFilesBarrier, 200),
        (Bug::AckBeforeComplete, 200),
    ];
    for (bug, within) in bugs {
        let first = (0..within).find(|&seed| run(seed, bug, SimOptions::random(seed)).is_some());
        println!("{bug:?}: {first:?}");
        assert!(
            first.is_some(),
            "{bug:?} was not found within {within} seeds"
        );
    }
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let lying = |seed| SimOptions {
        lie: true,
        ..SimOptions::random(seed)
    };
    let found = (0..100).find(|&seed| run(seed, Bug::None, lying(seed)).is_some());
    assert!(
        found.is_some(),
        "a disk without barriers should lose something"
    );
}

#[test]
fn a_flush_of_all_files_hides_what_an_isolated_one_shows() {
    let direct = Style {
        direct: true,
        through: false,
    };
    let lost = |isolate_flush| {
        (0..300).any(|seed| {
            let disk = SimDisk::new(
                SimOptions {
                    isolate_flush,
                    ..SimOptions::default()
                },
                seed,
            );
            let acked = AtomicU64::new(0);
            disk.cut_at(seed % OPS);
            workload(&disk, seed, direct, Bug::OtherFilesBarrier, &acked);
            disk.reboot(seed);
            let found = SimRuntime::run(seed, |rt| {
                let toy = Toy::open(&*disk.system(rt), direct, Bug::OtherFilesBarrier)?;
                toy.recover()
            });
            found.unwrap_or(0) < acked.into_inner()
        })
    };
    assert!(lost(true) && !lost(false));
}

#[test]
fn one_seed_gives_one_history() {
    let style = Style {
        direct: false,
        through: false,
    };
    let run = |seed| {
        let disk = SimDisk::new(
            SimOptions {
                log_lines: 10_000,
                ..SimOptions::random(seed)
            },
            seed,
        );
        disk.fail_at(seed, Fault::Io);
        workload(&disk, seed, style, Bug::None, &AtomicU64::new(0));
        disk.reboot(seed);
        (disk.log(), disk.file_bytes("/toy", "0"), disk.counters())
    };
    for seed in 0..50 {
        assert_eq!(run(seed), run(seed));
    }
}

/// Tests every crash point of a workload, and for each of them every crash point of its recovery.
#[test]
fn crashes_within_recovery_from_one_image() {
    let style = Style {
        direct: true,
        through: false,
    };
    let whole = SimDisk::new(SimOptions::default(), 1);
    workload(&whole, 1, style, Bug::None, &AtomicU64::new(0));
    let ops = whole.ops();
    assert_eq!(ops, OPS);
    for op in 0..ops {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let acked = AtomicU64::new(0);
        disk.cut_at(op);
        workload(&disk, 1, style, Bug::None, &acked);
        let acked = acked.into_inner();
        disk.reboot(op);
        let image = disk.snapshot();
        let recover = || {
            let open = |rt: &SimRuntime| Toy::open(&*disk.system(rt), style, Bug::None)?.recover();
            SimRuntime::run(op, open)
        };
        let (first, steps) = (recover(), disk.ops());
        for cut in 0..steps {
            disk.restore(&image);
            disk.cut_at(cut);
            assert!(recover().is_err());
            disk.reboot(op ^ cut << 32);
            match (&first, recover()) {
                (Ok(first), Ok(again)) => assert_eq!(*first, again, "{}", disk.log()),
                (Err(_), Err(_)) => assert_eq!(acked, 0),
                (a, b) => panic!("{a:?} and then {b:?}\n{}", disk.log()),
            }
        }
        assert!(first.unwrap_or(0) >= acked, "{}", disk.log());
    }
}
