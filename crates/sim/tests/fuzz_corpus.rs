//! Replay of every kept fuzzing input, without a fuzzer: the corpora, which reach all code that fuzzing
//! reached, and the regressions, each of which once found a bug.

use logforce_sim::fuzz::{TARGETS, all_ways};
use logforce_testkit::Rng;
use std::path::Path;

/// Runs all inputs of a target below `fuzz/<what>`. Returns their number.
fn replay(what: &str, name: &str, run: fn(&[u8]) -> bool) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let Ok(entries) = std::fs::read_dir(root.join(what).join(name)) else {
        return 0;
    };
    let mut paths: Vec<_> = entries.map(|e| e.expect("listed").path()).collect();
    paths.sort();
    for path in &paths {
        let input = std::fs::read(path).expect("an input");
        if std::panic::catch_unwind(|| run(&input)).is_err() {
            panic!("{name}: {}: see above", path.display());
        }
    }
    paths.len()
}

#[test]
fn the_corpora_pass() {
    for target in TARGETS {
        let count = replay("corpus", target.name, target.run);
        assert!(count >= 40, "{}: only {count} inputs", target.name);
    }
}

#[test]
fn the_regressions_pass() {
    let counts = TARGETS.iter().map(|t| replay("regressions", t.name, t.run));
    assert!(counts.sum::<usize>() >= 2);
}

/// Strict and truncating openings, reading, `verify` with `dump`, and salvage agree.
#[test]
fn all_ways_agree_on_the_corpus() {
    for what in ["corpus", "regressions"] {
        replay(what, "mutated_log", all_ways);
    }
}

/// All ways agree on random mutants; `LOGFORCE_SEED=N` repeats one.
#[test]
fn all_ways_agree_on_random_mutants() {
    for seed in logforce_sim::seeds(200, 4_000) {
        let mut rng = Rng::new(seed);
        let len = 8 + rng.below(56);
        let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        if std::panic::catch_unwind(|| all_ways(&bytes)).is_err() {
            panic!("seed {seed}: see above");
        }
    }
}
