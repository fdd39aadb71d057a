//! Each rival takes records by one thread and by several, and shows them after it is opened again.

use logforce_benches::rivals::{Entry, Ground, Shape, Until, Writers, all, run};
use logforce_measure::Interrupt;
use std::path::Path;

/// Records, by the number of threads.
const RECORDS: u64 = 50;

fn check(threads: usize) {
    // Not the temporary directory: that is often in memory, where nothing is durable.
    let ground = Ground::new(Path::new(env!("CARGO_TARGET_TMPDIR")), None).unwrap();
    let interrupt = Interrupt::new();
    for entry in all() {
        let rival = match entry {
            Entry::Here(rival) => rival,
            // Not asked for in this build.
            Entry::Absent { .. } => continue,
        };
        if threads > 1 && rival.writers() == Writers::Single {
            continue;
        }
        for record in [128, 16 << 10] {
            let shape = Shape { record, threads };
            let what = format!("{} {} {shape:?}", rival.name(), rival.version());
            let committed = RECORDS * threads as u64;
            let seen = run(&*rival, &ground, shape, Until::Count(committed), &interrupt)
                .unwrap_or_else(|e| panic!("{what}: {e:#}"));
            assert_eq!(seen.commits, committed, "{what}");
            if let Some(kept) = seen.kept {
                assert_eq!(kept.acknowledged, committed, "{what}");
                assert_eq!((kept.missing, kept.foreign), (0, 0), "{what}");
            } else {
                assert_eq!(rival.name(), "raw");
            }
        }
    }
}

#[test]
fn one_thread() {
    check(1);
}

#[test]
fn four_threads() {
    check(4);
}

#[test]
fn every_rival_of_the_build_says_its_version() {
    for entry in all() {
        if let Entry::Here(rival) = entry {
            assert!(!rival.version().contains('?'), "{}", rival.version());
            assert!(!rival.settings().is_empty());
        }
    }
}
