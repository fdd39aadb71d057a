use super::*;
use crate::testing::{MemDirectory, facts, setup};
use logforce_device::{FilesystemKind, Guarantee, Platform};
use std::sync::atomic::Ordering::Relaxed;

fn options(system: System, commits: u64) -> Options {
    Options {
        system,
        commits,
        limit: None,
        // Otherwise a busy computer would be an excuse for slow commits.
        is_loaded: true,
    }
}

/// Returns a directory whose syncs take as long as those of a fast device. Memory alone is faster than any
/// device, which makes its commits implausible.
fn plausible() -> Arc<MemDirectory> {
    let dir = MemDirectory::new();
    dir.shared.barrier_us.store(10, Relaxed);
    dir
}

/// Runs all repetitions in `dir`, whose device reports its work.
fn run<'a>(options: &Options, setup: &'a Setup, facts: &'a Facts) -> Preflight<'a> {
    let mut preflight = Preflight::prepare(options, setup, facts).unwrap();
    loop {
        preflight.repeat().unwrap();
        if !preflight.needs_more() {
            return preflight;
        }
    }
}

#[test]
fn each_system_makes_its_own_writes_and_forces() {
    const COMMITS: u64 = 50;
    for system in System::ALL {
        let dir = MemDirectory::new();
        let mut setup = setup(&dir);
        setup.counters = Rc::new(dir.counters());
        let facts = facts();
        let preflight = run(&options(system, COMMITS), &setup, &facts);
        let [repetition] = preflight.repetitions() else {
            panic!("{system}: {} repetitions", preflight.repetitions().len());
        };
        assert_eq!(repetition.commits, COMMITS, "{system}");
        let forces = system.commit().unwrap().forces;
        let device = repetition.device.unwrap();
        let each = COMMITS * forces.len() as u64;
        assert_eq!(device.writes, each, "{system}");
        assert_eq!(device.flushes, Some(each), "{system}");
        let bytes: u64 = forces.iter().map(|f| f.bytes).sum();
        assert_eq!(device.bytes, COMMITS * bytes, "{system}");
        for (measured, force) in preflight.forces().iter().zip(forces) {
            assert_eq!(
                (measured.state, measured.method),
                (force.state, force.call),
                "{system}"
            );
        }
        assert_eq!(preflight.notes(), [""; 0], "{system}");
    }
}

#[test]
fn a_file_that_is_used_up_is_begun_again() {
    // The WAL of SQLite holds a thousand frames.
    let dir = MemDirectory::new();
    let (setup, facts) = (setup(&dir), facts());
    let preflight = run(&options(System::Sqlite, 2500), &setup, &facts);
    assert_eq!(preflight.repetitions()[0].commits, 2500);
    assert_eq!(dir.bytes("journal-recycled").len(), 1000 * 4120);
}

#[test]
fn percentiles_need_ten_commits_beyond() {
    for (commits, p99, p999) in [
        (999, false, false),
        (1000, true, false),
        (10_000, true, true),
    ] {
        let dir = plausible();
        let (setup, facts) = (setup(&dir), facts());
        let preflight = run(&options(System::Redis, commits), &setup, &facts);
        let repetition = preflight.repetitions()[0];
        let known = (repetition.p99_us.is_some(), repetition.p999_us.is_some());
        assert_eq!(known, (p99, p999), "{commits}");
        let fitness = preflight.outcome().fitness;
        let expected = if p99 { Fitness::Fit } else { Fitness::Unclear };
        assert_eq!(fitness, expected, "{commits}");
    }
}

#[test]
fn a_disk_is_too_slow_only_after_three_repetitions() {
    let dir = plausible();
    let (setup, facts) = (setup(&dir), facts());
    let strict = Options {
        limit: Some(Duration::from_nanos(1)),
        ..options(System::Etcd, 20)
    };
    let mut preflight = run(&strict, &setup, &facts);
    assert_eq!(preflight.repetitions().len(), REPETITIONS);
    assert!(preflight.repetitions().iter().all(|r| r.above == Some(20)));
    let outcome = preflight.outcome();
    assert_eq!(outcome.fitness, Fitness::Unfit, "{}", outcome.why);
    assert!(
        outcome.why.contains("in each of 3 repetitions"),
        "{}",
        outcome.why
    );
    // Without a load, waits for a processor may be the cause.
    preflight.is_loaded = false;
    for (percent, fitness) in [(0.0, Fitness::Unfit), (50.0, Fitness::Unclear)] {
        preflight.repetitions[1].cpu_wait_percent = Some(percent);
        preflight.repetitions[0].cpu_wait_percent = None;
        preflight.repetitions[2].cpu_wait_percent = None;
        assert_eq!(preflight.outcome().fitness, fitness, "{percent}");
    }
}

/// A slow device, without a changed limit: each sync takes longer than etcd's 10 ms.
#[test]
fn a_device_that_takes_longer_than_the_threshold_is_unfit() {
    let dir = MemDirectory::new();
    let (setup, facts) = (setup(&dir), facts());
    dir.shared.barrier_us.store(11_000, Relaxed);
    let preflight = run(&options(System::Etcd, 12), &setup, &facts);
    let outcome = preflight.outcome();
    assert_eq!(outcome.fitness, Fitness::Unfit, "{}", outcome.why);
    let above: Vec<_> = preflight.repetitions().iter().map(|r| r.above).collect();
    assert_eq!(above, [Some(12); 3]);
}

#[test]
fn files_in_memory_are_unfit_after_one_repetition() {
    let mut facts = Facts::new(Platform::Linux, "tmpfs", FilesystemKind::Volatile);
    facts.direct = crate::testing::facts().direct;
    let dir = MemDirectory::with_facts(facts.clone());
    let setup = setup(&dir);
    for system in System::ALL {
        let strict = Options {
            limit: Some(Duration::from_nanos(1)),
            ..options(system, 20)
        };
        let preflight = run(&strict, &setup, &facts);
        let outcome = preflight.outcome();
        assert_eq!(outcome.fitness, Fitness::Unfit, "{system}");
        assert_eq!(outcome.durability.guarantee, Guarantee::ProcessCrash);
        assert_eq!(preflight.repetitions().len(), 1, "{system}");
        assert!(
            outcome
                .durability
                .evidence
                .contains("tmpfs keeps files in memory"),
            "{}",
            outcome.why
        );
    }
}

#[test]
fn commits_that_reach_no_device_are_implausible() {
    let dir = plausible();
    dir.shared.drops_flushes.store(true, Relaxed);
    let mut setup = setup(&dir);
    setup.counters = Rc::new(dir.counters());
    let facts = facts();
    let preflight = run(&options(System::Postgresql, 20), &setup, &facts);
    let outcome = preflight.outcome();
    assert_eq!(outcome.durability.verdict, Verdict::Implausible);
    assert_eq!(outcome.fitness, Fitness::Unfit, "{}", outcome.why);
    assert!(
        outcome
            .durability
            .evidence
            .contains("0.00 flushes per commit"),
        "{}",
        outcome.why
    );
}

#[test]
fn a_filesystem_without_direct_io_gets_buffered_writes() {
    let mut facts = facts();
    facts.direct = None;
    let dir = MemDirectory::with_facts(facts.clone());
    let setup = setup(&dir);
    let preflight = run(&options(System::Mariadb, 20), &setup, &facts);
    assert_eq!(preflight.forces()[0].method, Method::Fdatasync);
    let [note] = preflight.notes() else {
        panic!("{:?}", preflight.notes());
    };
    assert!(note.contains("through the cache"), "{note}");
}

#[test]
fn a_failed_force_is_an_error_and_an_interrupt_ends_it() {
    let dir = MemDirectory::new();
    let (setup, facts) = (setup(&dir), facts());
    let mut preflight = Preflight::prepare(&options(System::Nats, 20), &setup, &facts).unwrap();
    dir.shared.bad_barriers.store(true, Relaxed);
    let told = preflight.repeat().unwrap_err().to_string();
    assert!(told.contains("planted barrier error"), "{told}");
    dir.shared.bad_barriers.store(false, Relaxed);
    setup.interrupt.raise();
    assert!(matches!(preflight.repeat(), Err(MeasureError::Interrupted)));
}

#[test]
fn a_full_disk_is_refused_before_anything_is_written() {
    let dir = MemDirectory::new();
    let mut setup = setup(&dir);
    setup.space.free = 0;
    let facts = facts();
    let refused = Preflight::prepare(&options(System::Etcd, 10_000), &setup, &facts);
    let told = refused.err().unwrap().to_string();
    assert!(
        told.contains("not enough free space") && told.ends_with("choose another --dir."),
        "{told}"
    );
    assert_eq!(dir.shared.writes.load(Relaxed), 0);
}
