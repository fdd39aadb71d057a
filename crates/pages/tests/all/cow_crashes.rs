//! A crash, a failure or a panic at each operation of a short life.

use crate::cow_basics::options;
use crate::model::{Done, History, State, Step, perform};
use logforce_core::OpenMode;
use logforce_pages::{Error, ErrorKind, Options, PageFile, WriteThrough};
use logforce_testkit::{Failure, Fault, SimDisk, SimOptions, SimRuntime, Survival};

/// Long enough for places to be used again, with every kind of change.
fn transactions() -> Vec<Done> {
    use Step::{Change, Count, Discard, Write};
    let steps: [&[Step]; 9] = [
        &[Write(0), Write(1), Write(2), Write(3)],
        &[Change(1), Write(33)],
        &[Write(0), Change(2), Discard(3), Write(1 << 40)],
        &[Change(1), Change(33), Write(1023)],
        &[Count(300), Write(3)],
        &[Change(0), Change(1), Change(2), Change(3)],
        &[Count(2), Count(40), Write(32)],
        &[Discard(0), Write(1)],
        &[Write(0), Write(2), Write(1024)],
    ];
    let done = |(n, steps): (usize, &&[Step])| Done::new(n as u64 + 1, steps);
    steps.iter().enumerate().map(done).collect()
}

/// The states after each commit, the empty one first.
fn states() -> Vec<State> {
    let mut history = History::default();
    let numbered = transactions().into_iter().enumerate();
    history.done = numbered.map(|(n, d)| (n as u64 + 1, d)).collect();
    (0..=history.done.len() as u64)
        .map(|n| history.at(n))
        .collect()
}

/// Commits one after the other. Gives how many were acknowledged, and the first error.
fn workload(disk: &SimDisk, rt: &SimRuntime, options: Options) -> (usize, Option<Error>) {
    let opened = PageFile::open(&*disk.system(rt), "/db", OpenMode::CreateNew, options);
    let file = match opened {
        Ok(file) => file,
        Err(e) => return (0, Some(e)),
    };
    for (n, done) in transactions().iter().enumerate() {
        let commit = || {
            let mut tx = file.begin()?;
            perform(&mut tx, done, file.page_size())?;
            tx.commit()
        };
        match commit() {
            Ok(committed) => assert_eq!(committed.commit, n as u64 + 1),
            Err(e) => return (n, Some(e)),
        }
    }
    match file.close() {
        Ok(()) => (transactions().len(), None),
        Err(e) => (transactions().len(), Some(e)),
    }
}

/// Opens what a crash has left: one of the states from `acknowledged` on, and no later one than that
/// which was under way. Then it goes on from there.
fn check(disk: &SimDisk, options: &Options, acknowledged: usize, what: &str) {
    let states = states();
    let log = disk.log();
    SimRuntime::run(7, |rt| {
        let mode = match acknowledged {
            0 => OpenMode::OpenOrCreate,
            _ => OpenMode::OpenExisting,
        };
        let open = |mode| PageFile::open(&*disk.system(rt), "/db", mode, options.clone());
        let file = open(mode).unwrap_or_else(|e| panic!("{what}: {e}\n{log}"));
        let size = file.page_size();
        let look = |file: &PageFile| {
            let view = file.snapshot().unwrap();
            let state =
                State::of(&view, size, what).unwrap_or_else(|e| panic!("{what}: {e}\n{log}"));
            (view.commit(), state)
        };
        let (commit, found) = look(&file);
        let may_be = acknowledged..=(acknowledged + 1).min(states.len() - 1);
        assert!(
            may_be.contains(&(commit as usize)),
            "{what}: {acknowledged} were acknowledged, {commit} are there\n{log}"
        );
        assert_eq!(
            found, states[commit as usize],
            "{what}: commit {commit}\n{log}"
        );
        // It goes on, over the places that are free now.
        let mut expected = found;
        for n in 0..3 {
            let steps = [Step::Write(n), Step::Write(7), Step::Change(1024)];
            let done = Done::new(100 + n, &steps);
            let mut tx = file.begin().unwrap();
            perform(&mut tx, &done, size).unwrap();
            tx.commit().unwrap();
            expected.apply(&done);
        }
        file.close().unwrap();
        let file = open(OpenMode::OpenExisting).unwrap();
        assert_eq!(look(&file).1, expected, "{what}: after going on\n{log}");
    });
}

fn disks() -> Vec<SimOptions> {
    vec![
        SimOptions::default(),
        SimOptions {
            in_place: false,
            sector: 4096,
            blocking: true,
            ..SimOptions::default()
        },
        SimOptions {
            direct: false,
            physical_sector: 8192,
            ..SimOptions::default()
        },
    ]
}

fn kinds() -> Vec<Options> {
    let through = |runs| WriteThrough {
        runs,
        bytes: 1 << 20,
    };
    vec![
        options().page_size(512).write_through(through(0)),
        options().page_size(4096).write_through(through(1)),
        options()
            .page_size(4096)
            .write_through(through(9))
            .checksums(false),
    ]
}

/// Power cuts and crashes at each operation, and what may be left of each.
#[test]
fn each_cut_leaves_the_old_state_or_the_new_one() {
    for (d, disk_options) in disks().into_iter().enumerate() {
        for (k, options) in kinds().into_iter().enumerate() {
            for op in 0.. {
                let disk = SimDisk::new(disk_options.clone(), 5);
                disk.cut_at(op);
                let (acknowledged, _) =
                    SimRuntime::run(3, |rt| workload(&disk, rt, options.clone()));
                let is_over = !disk.is_cut();
                let left = disk.snapshot();
                for (n, survival) in Survival::ALL.into_iter().enumerate() {
                    for (failure, seeds) in
                        [(Failure::Power, 2), (Failure::Os, 1), (Failure::Process, 1)]
                    {
                        for seed in 0..seeds {
                            let what = format!(
                                "disk {d}, kind {k}, operation {op}, {failure:?}, {survival:?}, {seed}"
                            );
                            disk.restore(&left);
                            disk.crash(failure, Some(survival), op * 31 + seed * 7 + n as u64);
                            check(&disk, &options, acknowledged, &what);
                        }
                    }
                }
                if is_over {
                    assert!(op > 20);
                    break;
                }
            }
        }
    }
}

/// An opening that is cut off at any operation takes nothing with it.
#[test]
fn an_opening_can_be_cut_off() {
    for disk_options in disks() {
        for options in kinds() {
            let disk = SimDisk::new(disk_options.clone(), 5);
            let (all, _) = SimRuntime::run(3, |rt| workload(&disk, rt, options.clone()));
            let closed = disk.snapshot();
            for op in 0.. {
                disk.restore(&closed);
                // A boot of its own: operations count from 0.
                disk.reboot(op);
                disk.cut_at(op);
                SimRuntime::run(4, |rt| {
                    let system = disk.system(rt);
                    let _ =
                        PageFile::open(&*system, "/db", OpenMode::OpenExisting, options.clone());
                });
                let is_over = !disk.is_cut();
                disk.reboot(op);
                check(&disk, &options, all, &format!("opening, operation {op}"));
                if is_over {
                    assert!(op > 3);
                    break;
                }
            }
        }
    }
}

/// Each operation fails once: what is acknowledged afterwards is there after a crash, and what is told
/// is that it failed.
#[test]
fn each_failure_is_told_and_poisons() {
    for fault in [Fault::Io, Fault::NoSpace] {
        for (k, options) in kinds().into_iter().enumerate() {
            let mut told = std::collections::BTreeMap::new();
            for op in 0.. {
                let disk = SimDisk::new(SimOptions::default(), 5);
                let (acknowledged, error, ops) = SimRuntime::run(3, |rt| {
                    disk.fail_at(op, fault);
                    let (acknowledged, error) = workload(&disk, rt, options.clone());
                    (acknowledged, error, disk.ops())
                });
                let what = format!("{fault:?}, kind {k}, operation {op}: {error:?}");
                if let Some(e) = &error {
                    *told.entry(e.kind() as u8).or_insert(0) += 1;
                    let is_told = match e.kind() {
                        ErrorKind::Io | ErrorKind::Poisoned => true,
                        ErrorKind::NoSpace => fault == Fault::NoSpace,
                        _ => false,
                    };
                    assert!(is_told, "{what}");
                }
                disk.reboot(op);
                check(&disk, &options, acknowledged, &what);
                if op >= ops {
                    assert!(error.is_none(), "{what}");
                    break;
                }
            }
            let told: u64 = told.values().sum();
            assert!(told > 20, "{told} of the failures were told");
        }
    }
}

/// The system panics in the middle of a call, in whatever thread: nobody waits for ever, and what was
/// acknowledged is there.
#[test]
fn each_panic_poisons_and_nobody_hangs() {
    let options = options()
        .page_size(512)
        .write_through(WriteThrough { runs: 0, bytes: 0 });
    for op in 0.. {
        let disk = SimDisk::new(SimOptions::default(), 5);
        let acknowledged = std::sync::atomic::AtomicUsize::new(0);
        let (ops, panicked) = SimRuntime::run(3, |rt| {
            rt.tolerate_panics();
            let run = || {
                let system = disk.system(rt);
                let opened = PageFile::open(&*system, "/db", OpenMode::CreateNew, options.clone());
                disk.fail_at(op, Fault::Panic);
                let Ok(file) = opened else { return };
                for (n, done) in transactions().iter().enumerate() {
                    let Ok(mut tx) = file.begin() else { return };
                    perform(&mut tx, done, file.page_size()).unwrap();
                    // Carried by the thread in the background, or by this one.
                    let result = match n % 2 {
                        0 => tx.submit().and_then(|handle| handle.wait()),
                        _ => tx.commit(),
                    };
                    match result {
                        Ok(_) => acknowledged.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
                            // Reading what is durable goes on.
                            let view = file.snapshot().unwrap();
                            State::of(&view, 512, "after a panic").unwrap();
                            return;
                        }
                    };
                }
            };
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
            (disk.ops(), panicked)
        });
        let acknowledged = acknowledged.into_inner();
        let what = format!("operation {op}, panicked here: {panicked}");
        disk.reboot(op);
        check(&disk, &options, acknowledged, &what);
        if op > ops + 3 {
            assert!(!panicked);
            break;
        }
    }
}
