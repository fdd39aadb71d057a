//! Each rival takes records by one thread and by several, and shows them after it is opened again.

#![cfg(feature = "harness")]

use logforce_rivals::{Entry, Place, Shape, Until, Writers, all, run};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Records of each thread.
const RECORDS: u64 = 50;

fn check(threads: usize) {
    // Not the temporary directory: that is often in memory, where nothing is durable.
    let place = Place::new(Path::new(env!("CARGO_TARGET_TMPDIR")), None).unwrap();
    let stop = AtomicBool::new(false);
    for entry in all() {
        let rival = match entry {
            Entry::Here(rival) => rival,
            Entry::Absent { name, why } => {
                logforce_testkit::skip!("{name}: {why}");
                continue;
            }
        };
        if threads > 1 && rival.writers() == Writers::Single {
            continue;
        }
        for record in [128, 16 << 10] {
            let shape = Shape { record, threads };
            let what = format!("{} {} {shape:?}", rival.name(), rival.version());
            let seen = run(&*rival, &place, shape, Until::Count(RECORDS), &stop)
                .unwrap_or_else(|e| panic!("{what}: {e:#}"));
            let committed = RECORDS * threads as u64;
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
