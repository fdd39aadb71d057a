//! Simulation: the shipped log on a simulated disk, compared with a model.
//!
//! A **run** ([`simulation`]) follows from one seed. The seed determines the disk, the options, the
//! steps of each thread, the schedule and every fault. A run repeats this: threads work on the log
//! ([`workload`]) until the process, the system or the power fails; the log is opened, often with
//! crashes inside the opening; the result is checked. A third of the crashes is examined once more
//! on a corrupted copy of the disk (`simulation/corruption.rs`).
//!
//! The **model** ([`model`]) knows only the results of the log's calls. From them it derives which
//! records, void ranges, front and metadata must exist after a failure, which may, and which must not.
//!
//! `cargo xtask sim --seed N` reproduces a run exactly, with the same version of the code; a
//! failing run prints that command. A seed that found a bug goes into `crates/sim/seeds.txt`.
//!
//! | module | content |
//! |---|---|
//! | [`simulation`] | random runs, their coverage, corrupted copies |
//! | [`model`] | expected contents of a log after a failure |
//! | [`workload`] | work of threads on a log, and every way to end it |
//! | [`fixture`] | small logs with known contents, which exhaustive tests damage |
//! | [`mending`] | openings of a damaged log, with or without a repair before |
//! | [`memory`] | a directory in memory, cheap enough to open a log in a million times |
//! | [`fuzz`] | bodies of the fuzz targets |
//! | [`subject`] | subject of a random run: the log, the page file, or a durable file |
//! | [`pages`] | random runs of a page file, with their own model |
//! | [`files`] | random runs of a durable file, with their own model |
//! | [`known_bugs`] | bugs that `--cfg planted` compiles in, by the suite that catches each |

#![forbid(unsafe_code)]

pub mod files;
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

/// Returns the seeds of a random test: the fixed ones that test every change, or, in a deep run
/// (`cargo xtask test --deep`), new ones that follow from the commit. `LOGFORCE_SEEDS=N` takes the first
/// N, `LOGFORCE_SEED=N` only that one.
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

/// Returns true in a deep run, in which tests do their largest volume.
pub fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

/// Returns the interval, in operations, of an event that a deep run has every `deep` operations. Outside
/// deep runs the event is a fourth to a fifth as frequent. The interval is then odd, so that the event meets
/// both of two alternating kinds of operation, such as writes and barriers.
pub fn stride(deep: usize) -> usize {
    match is_deep() {
        true => deep,
        false => 4 * deep + 1,
    }
}

/// Returns a number from an environment variable that limits or selects the work of a test.
pub fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
