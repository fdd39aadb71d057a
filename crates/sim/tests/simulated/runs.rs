//! Some random runs; `cargo xtask sim` makes many more.

use logforce_sim::pages;
use logforce_sim::seeds;
use logforce_sim::simulation::{CALLS, Coverage, POWER_CUTS, run};

/// Random runs pass; `LOGFORCE_SEED=N` makes only that one.
#[test]
fn random_runs() {
    // The stage `simulation` of `cargo xtask test` makes more.
    let count = if cfg!(windows) { 40 } else { 20 };
    let mut all = Coverage::default();
    for seed in seeds(count, count) {
        let one = run(seed);
        assert!(one.calls >= CALLS && one.power_cuts >= POWER_CUTS);
        all.add(&one);
    }
    println!("{all}");
}

/// Seeds that once found a bug pass. With newer code each is just one more random run.
#[test]
fn seeds_that_found_a_bug() {
    let lines = include_str!("../../seeds.txt").lines();
    let words = lines.filter_map(|l| l.split_whitespace().next());
    let seeds: Vec<u64> = words.filter_map(|w| w.parse().ok()).collect();
    assert!(seeds.len() >= 13, "{seeds:?}");
    for seed in seeds {
        run(seed);
    }
}

/// The same seed makes the same run: otherwise a failure could not be reproduced.
#[test]
fn a_run_follows_from_its_seed() {
    for seed in [3, 4] {
        assert_eq!(format!("{:?}", run(seed)), format!("{:?}", run(seed)));
        assert_eq!(pages::run(seed), pages::run(seed));
    }
}
