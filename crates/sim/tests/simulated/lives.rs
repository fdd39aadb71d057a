//! Some random lives; `cargo xtask sim` lives many more of them.

use logforce_sim::life::{CALLS, CUTS, Tally, live};
use logforce_sim::seeds;

/// `LOGFORCE_SEED=n` lives only that one.
#[test]
fn random_lives() {
    // More of them are a stage of its own.
    let count = if cfg!(windows) { 40 } else { 20 };
    let mut all = Tally::default();
    for seed in seeds(count, count) {
        let one = live(seed);
        assert!(one.calls >= CALLS && one.cuts >= CUTS);
        all.add(&one);
    }
    println!("{all}");
}

/// Seeds that found something: of the version of their day, and one more life each since.
#[test]
fn lives_that_found_something() {
    let lines = include_str!("../../seeds.txt").lines();
    let words = lines.filter_map(|l| l.split_whitespace().next());
    let seeds: Vec<u64> = words.filter_map(|w| w.parse().ok()).collect();
    assert!(seeds.len() >= 13, "{seeds:?}");
    for seed in seeds {
        live(seed);
    }
}

/// One seed, one life: else a failure could not be looked at.
#[test]
fn a_life_follows_from_its_seed() {
    for seed in [3, 4] {
        assert_eq!(format!("{:?}", live(seed)), format!("{:?}", live(seed)));
    }
}
