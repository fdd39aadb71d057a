//! Chaos: nodes are killed, frozen and deposed while the store loses requests and answers. After each round the
//! log is restored from the archive, and every acknowledgement is compared with it.
//!
//! - `content`: the records, which follow from their names;
//! - `node`: the child process, this binary once more;
//! - `cluster`: the nodes from outside;
//! - `ledger`: what was acknowledged, and the comparison;
//! - `store`: the test server or versitygw;
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
use store::Target;

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

/// Child process; does nothing in a usual run of the tests.
#[test]
fn node() {
    if let Some(job) = node::Job::from_environment() {
        node::run(&job);
    }
}

#[test]
fn no_acknowledgement_is_lost() {
    check(|_| Target::faulty(), &[1, fresh()], 5);
}

#[test]
#[ignore = "deep: takes minutes, a round takes about a second"]
fn no_acknowledgement_is_lost_in_many_rounds() {
    check(|_| Target::faulty(), &[fresh(), fresh() + 1], 150);
}

#[test]
#[ignore = "deep: takes minutes, and needs the program versitygw"]
fn no_acknowledgement_is_lost_on_versitygw() {
    match store::versitygw() {
        Some(program) => check(|_| Target::versity(&program), &[fresh()], 100),
        None => println!("skipped: no versitygw; see docs/testing.md"),
    }
}

/// Rounds within which each planted bug has to be found.
#[cfg(planted)]
const WITHIN: u64 = 33;

/// `RUSTFLAGS="--cfg planted" cargo test -p logforce-archive --features s3 --test chaos planted`
#[cfg(planted)]
#[test]
fn planted_bugs_are_found() {
    let chosen = std::env::var("LOGFORCE_BUG").ok();
    for bug in [
        "ExistingIsMine",
        "AcknowledgedBehindAHole",
        "SealPassedOver",
        "DeletedBeforeTheFloor",
        "DeposedGoesOn",
    ] {
        if chosen.as_deref().is_some_and(|chosen| chosen != bug) {
            continue;
        }
        let mut chaos = Chaos::new(Target::faulty(), 1);
        chaos.plant(bug);
        let mut rounds = 0..WITHIN;
        match rounds.find_map(|round| Some((round, chaos.round().err()?))) {
            Some((round, why)) => println!("{bug}: round {round}: {why}"),
            None => panic!("{bug} was not found in {WITHIN} rounds"),
        }
    }
}
