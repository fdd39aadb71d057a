use super::*;
use crate::testing::{MemDirectory, setup};
use logforce_device::{Guarantee, Platform, Verdict};
use std::sync::atomic::Ordering::Relaxed;

fn options() -> Options {
    Options {
        size: 1 << 20,
        chunk: 16384,
        methods: Method::LINUX.to_vec(),
        states: FileState::ALL.to_vec(),
        logs: false,
        log_methods: Vec::new(),
        time: None,
    }
}

fn measure(dir: &Arc<MemDirectory>, options: &Options) -> ScenarioOutcome<Option<Neighbours>> {
    let mut setup = setup(dir);
    setup.counters = Rc::new(dir.counters());
    options.run(&setup).unwrap()
}

#[test]
fn every_row_does_all_commits_and_forces_each() {
    let dir = MemDirectory::new();
    let outcome = measure(&dir, &options());
    assert_eq!(outcome.rows.len(), 28);
    for row in &outcome.rows {
        assert_eq!((row.commits, &row.error), (Some(64), &None), "{row:?}");
        assert_eq!(row.device_writes_per_commit, Some(1.0));
        assert_eq!(row.device_bytes_per_commit, Some(16384.0));
        let forced = row.guarantee == Some(Guarantee::PowerLoss);
        assert_eq!(
            row.device_flushes_per_commit,
            Some(if forced { 1.0 } else { 0.0 }),
            "{row:?}"
        );
        assert!((row.ms_per_commit.unwrap() * 64.0 / row.total_ms.unwrap() - 1.0).abs() < 1e-9);
        assert!((row.commits_per_s.unwrap() * row.ms_per_commit.unwrap() / 1e3 - 1.0).abs() < 1e-9);
        assert_eq!(row.each.len(), 4);
    }
}

#[test]
fn two_directories_take_turns_and_each_has_its_own_counters() {
    let dirs = [MemDirectory::new(), MemDirectory::new()];
    // The second disk drops its flushes, which only its own counters show.
    dirs[1].shared.drops_flushes.store(true, Relaxed);
    let setups = dirs.iter().map(|dir| Setup {
        counters: Rc::new(dir.counters()),
        ..setup(dir)
    });
    let setups: Vec<_> = setups.collect();
    let one_state = Options {
        states: vec![FileState::Zeroed],
        ..options()
    };
    let outcomes = one_state.in_turns(&setups).unwrap();
    assert_eq!(outcomes.len(), 2);
    let [a, b] = [&outcomes[0].rows, &outcomes[1].rows];
    assert_eq!((a.len(), b.len()), (7, 7));
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.name(Kind::Journal), b.name(Kind::Journal));
        assert_eq!((a.commits, b.commits), (Some(64), Some(64)));
        assert_eq!((a.each.len(), b.each.len()), (8, 8), "rounds");
        assert_eq!(b.device_writes_per_commit, Some(1.0));
        assert_eq!(b.device_flushes_per_commit, Some(0.0));
        let is_forced = a.guarantee == Some(Guarantee::PowerLoss);
        assert_eq!(
            a.device_flushes_per_commit,
            Some(f64::from(u8::from(is_forced)))
        );
        assert_eq!(b.verdict == Some(Verdict::Implausible), is_forced);
    }
}

/// A file of chunks that repeat would be compressed to a fortieth.
#[test]
fn no_chunk_repeats_what_another_holds() {
    let dir = MemDirectory::new();
    let one = Options {
        methods: vec![Method::Fsync],
        states: vec![FileState::Zeroed],
        ..options()
    };
    measure(&dir, &one);
    let bytes = dir.bytes("journal-zeroed");
    assert_eq!(bytes.len(), 64 * 16384);
    let words = || bytes.chunks_exact(8);
    let different: std::collections::HashSet<&[u8]> = words().collect();
    assert_eq!(different.len(), words().count());
}

#[test]
fn a_bad_barrier_is_no_fast_success() {
    let dir = MemDirectory::new();
    dir.shared.bad_barriers.store(true, Relaxed);
    let outcome = measure(
        &dir,
        &Options {
            states: vec![FileState::Growing],
            ..options()
        },
    );
    // Preparation needs a barrier, so every row fails with that error.
    for row in outcome.rows {
        assert_eq!((row.commits, row.guarantee), (None, None));
        assert!(row.error.unwrap().contains("planted barrier error"));
    }
    let dir = MemDirectory::new();
    dir.shared.bad_through.store(true, Relaxed);
    for row in measure(&dir, &options()).rows {
        let through = row.method == Method::Dsync || row.method == Method::DirectDsync;
        assert_eq!(
            row.error.is_some_and(|e| e.contains("planted write error")),
            through
        );
        assert_eq!(row.commits.is_none(), through);
    }
}

#[test]
fn a_chunk_that_direct_io_cannot_take_is_not_offered() {
    let dir = MemDirectory::new();
    let outcome = measure(
        &dir,
        &Options {
            chunk: 1000,
            size: 100_000,
            ..options()
        },
    );
    for row in outcome.rows {
        let error = row.error.as_ref();
        assert_eq!(
            error.is_some_and(|e| e.contains("multiple of 4 KiB")),
            row::method(&row).unwrap().plan().direct
        );
    }
}

#[test]
fn dropped_flushes_are_noticed() {
    let dir = MemDirectory::new();
    dir.shared.drops_flushes.store(true, Relaxed);
    let outcome = measure(
        &dir,
        &Options {
            states: vec![FileState::Zeroed],
            ..options()
        },
    );
    for row in outcome
        .rows
        .iter()
        .filter(|r| r.guarantee == Some(Guarantee::PowerLoss))
    {
        assert_eq!(row.verdict, Some(Verdict::Implausible), "{row:?}");
    }
    assert_eq!(
        conclusion::conclude(&outcome.rows, Platform::Linux).recommended,
        None
    );
}

#[test]
fn a_little_time_is_enough_for_a_little() {
    let dir = MemDirectory::new();
    let time = Some(Duration::from_millis(20));
    let outcome = measure(&dir, &Options { time, ..options() });
    assert!(
        outcome
            .rows
            .iter()
            .all(|r| r.commits.is_some_and(|n| n > 0))
    );
    assert!(
        outcome.notes[0].contains("--seconds"),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn no_room_is_said_before_anything_is_written() {
    let dir = MemDirectory::new();
    let mut setup = setup(&dir);
    (setup.space.free, setup.space.total) = (1 << 20, 1 << 20);
    assert!(matches!(
        options().run(&setup),
        Err(MeasureError::NoSpace(_))
    ));
    assert_eq!(dir.shared.writes.load(Relaxed), 0);
}

#[test]
fn the_rows_are_the_methods_of_the_system_that_is_measured() {
    let dir = MemDirectory::new();
    let setup = setup(&dir);
    let directory = Arc::clone(&dir) as Arc<dyn Directory>;
    for platform in Platform::ALL {
        let mut facts = crate::testing::facts();
        facts.platform = platform;
        let asked = Options {
            methods: Method::ALL.to_vec(),
            states: vec![FileState::Zeroed],
            ..options()
        };
        let planned = planned(&asked, &setup, &directory, &facts, 1 << 20);
        let mut offered = Vec::new();
        for row in &planned {
            match row {
                Planned::Run(subject) => offered.push(subject.key().method),
                Planned::Elsewhere(..) => panic!("there is one directory"),
                Planned::NotOffered { key, reason } => assert_eq!(
                    *reason,
                    format!("{} is not a method of {platform}", key.method)
                ),
            }
        }
        let has = |m: &Method| m.is_of(platform);
        let expected: Vec<Method> = Method::ALL.into_iter().filter(has).collect();
        assert_eq!(offered, expected, "{platform}");
        assert_eq!(planned.len(), Method::ALL.len());
    }
}
