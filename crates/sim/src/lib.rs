//! Proof in simulation: the shipped log on a simulated disk, compared with a model.
//!
//! A **run** ([`simulation`]) follows from one seed. The seed determines the disk, the options, the
//! steps of each thread, the schedule and every fault. A run repeats this: threads work on the log
//! ([`workload`]) until the process, the system or the power fails; the log is opened, often with
//! crashes inside the opening; the result is checked. A third of the crashes is examined once more
//! on a corrupted copy of the disk (`simulation/corruption.rs`).
//!
//! The **model** ([`model`]) knows only the answers of the log's calls. From them it says which
//! records, void ranges, front and metadata must be there after a failure, which may be, and which
//! must not.
//!
//! `cargo xtask sim --seed N` reproduces a run exactly, with the same version of the code; a
//! failing run prints that command. A seed that found a bug goes into `crates/sim/seeds.txt`.
//!
//! | module | content |
//! |---|---|
//! | [`simulation`] | random runs, what they covered, corrupted copies |
//! | [`model`] | what a log must hold after a failure |
//! | [`workload`] | what threads do with a log, and every way to end it |
//! | [`fixture`] | small logs of which everything is known, to be damaged by exhaustive tests |
//! | [`mending`] | openings of a damaged log: refused, or repaired before |
//! | [`memory`] | a directory in memory, cheap enough to open a log in a million times |
//! | [`fuzz`] | what the fuzz targets do with an input |
//! | [`subject`] | what a random run is about: the log, or the page file |
//! | [`pages`] | random runs of a page file, with a model of its own |
//! | [`known_bugs`] | the bugs that `--cfg planted` compiles in, by the suite that catches each |

#![forbid(unsafe_code)]

pub mod fixture;
pub mod fuzz;
pub mod known_bugs;
pub mod memory;
pub mod mending;
pub mod model;
pub mod pages;
pub mod simulation;
pub mod subject;
pub mod workload;

/// The seeds of a random test: the fixed ones that test every change, or, in a deep run
/// (`cargo xtask test --deep`), fresh ones that follow from the commit. `LOGFORCE_SEEDS=N` takes the
/// first N, `LOGFORCE_SEED=N` that one alone.
pub fn seeds(every_change: u64, deep: u64) -> std::ops::Range<u64> {
    if let Some(seed) = from_env("LOGFORCE_SEED") {
        return seed..seed + 1;
    }
    let from = from_env("LOGFORCE_FROM").unwrap_or(0);
    let count = match is_deep() {
        true => deep,
        false => every_change,
    };
    from..from + from_env("LOGFORCE_SEEDS").unwrap_or(count)
}

/// Whether this is a deep run: tests then do all they can.
pub fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

/// Every how many operations of a run something happens, where in a deep run it does every `deep`: a
/// fifth to a quarter as often, and odd, so that writes and barriers that take turns are both met.
pub fn stride(deep: usize) -> usize {
    match is_deep() {
        true => deep,
        false => 4 * deep + 1,
    }
}

/// A number from the environment, which limits or selects what a test does.
pub fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
