//! Chaos: nodes are killed, frozen and deposed while the store loses requests and answers. After each round the
//! log is restored from the archive, and every acknowledgement is compared with it.
//!
//! - `content`: the records, which follow from their names;
//! - `node`: the child process, this binary once more;
//! - `cluster`: the nodes from outside;
//! - `ledger`: what was acknowledged, and the comparison;
//! - `store`: the test server or a real one;
//! - `rounds`: the actions of a round;
//! - `damage`: objects that the test damages;
//! - `answers`: restarts while answers are lost.
//!
//! `LOGFORCE_SEED=N` runs one seed, `LOGFORCE_ROUNDS=N` sets the number of rounds. See docs/testing.md.

#![cfg(target_os = "linux")]

mod answers;
mod cluster;
mod content;
mod damage;
mod ledger;
mod node;
mod rounds;
mod store;

use rounds::Chaos;
use store::{Kind, Target};

/// Rounds of a seed in every change.
const EVERY_CHANGE: u64 = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn fresh() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    since.as_millis() as u64 % 1_000_000_000
}

/// Runs the rounds of a seed. Returns the table of what happened, or the violation.
fn run(target: Target, seed: u64, rounds: u64) -> Result<String, String> {
    let mut chaos = Chaos::new(target, seed);
    for round in 0..rounds {
        let begun = std::time::Instant::now();
        match chaos.round() {
            Ok(line) => println!(
                "{seed} {round:3} {:5.1} s  {line}",
                begun.elapsed().as_secs_f64()
            ),
            Err(why) => return Err(format!("seed {seed}, round {round}: {why}")),
        }
    }
    chaos
        .end()
        .map_err(|why| format!("seed {seed}, at the end: {why}"))
}

fn check(make: impl Fn(u64) -> Target, seeds: &[u64], rounds: u64) {
    let rounds = number("LOGFORCE_ROUNDS").unwrap_or(rounds);
    let seeds = match number("LOGFORCE_SEED") {
        Some(seed) => vec![seed],
        None => seeds.to_vec(),
    };
    for seed in seeds {
        match run(make(seed), seed, rounds) {
            Ok(table) => println!("{table}"),
            Err(why) => panic!("{why}"),
        }
    }
}

/// Rounds of a seed in a deep run. A log remembers its last 129 openings. With more, a deposed copy that differs from
/// the archive in nothing may take it back (decision 0031), and a round of a returning machine would call that wrong.
const ROUNDS: u64 = 75;

/// Child process; does nothing in a usual run of the tests.
#[test]
fn node() {
    if let Some(job) = node::Job::from_environment() {
        node::run(&job);
    }
}

#[test]
fn no_acknowledgement_is_lost() {
    check(|_| Target::faulty(), &[1, fresh()], EVERY_CHANGE);
}

#[test]
#[ignore = "deep: takes minutes, a round takes about a second"]
fn no_acknowledgement_is_lost_in_many_rounds() {
    let seeds: Vec<u64> = (0..4).map(|n| fresh() + n).collect();
    check(|_| Target::faulty(), &seeds, ROUNDS);
}

fn check_real(kind: Kind) {
    if Target::real(kind).is_none() {
        let test = std::thread::current();
        let test = test.name().unwrap_or_default();
        println!("skipped: {test}: no {kind:?}; see docs/testing.md");
        return;
    }
    check(|_| Target::real(kind).unwrap(), &[fresh(), fresh() + 1], 50);
}

#[test]
#[ignore = "deep: takes minutes, and needs the program versitygw"]
fn no_acknowledgement_is_lost_on_versitygw() {
    check_real(Kind::Versitygw);
}

#[test]
#[ignore = "deep: takes minutes, and needs the program minio"]
fn no_acknowledgement_is_lost_on_minio() {
    check_real(Kind::Minio);
}

/// Faults of `src/fault.rs` that nodes show.
#[cfg(planted)]
const BUGS: &[&str] = &[
    "AcknowledgedBehindAHole",
    "ExistingIsMine",
    "SealPassedOver",
    "DeletedBeforeTheFloor",
    "DeposedGoesOn",
    "FloorAboveSegments",
    "SealDeleted",
    "SettledTooEarly",
];

/// `RUSTFLAGS="--cfg planted" cargo test -p logforce-archive --features s3 --test chaos planted`
#[cfg(planted)]
#[test]
fn planted_bugs_are_found() {
    let chosen = std::env::var("LOGFORCE_BUG").ok();
    for bug in chosen.as_deref().map_or(BUGS.to_vec(), |bug| vec![bug]) {
        let mut chaos = Chaos::new(Target::faulty(), 1);
        chaos.plant(bug);
        let mut rounds = 0..number("LOGFORCE_ROUNDS").unwrap_or(EVERY_CHANGE);
        match rounds.find_map(|round| Some((round, chaos.round().err()?))) {
            Some((round, why)) => println!("{bug}: round {round}: {why}"),
            None => panic!("{bug} was not found"),
        }
    }
}
