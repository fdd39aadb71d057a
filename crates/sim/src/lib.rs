//! Proof in simulation: the shipped log on a simulated disk, against a model of what must hold.
//!
//! `model` says what must be there after any failure, `work` makes a log do things and fail, and
//! the tests of this crate put the two together, by subject. `victim` is a log of which everything
//! is known, to be damaged; `still` is where that is opened a million times.

#![forbid(unsafe_code)]

pub mod fuzz;
pub mod life;
pub mod model;
pub mod plants;
pub mod still;
pub mod victim;
pub mod work;

/// The seeds of a test that draws lots: as many as every change is tested with, or, in a deep run
/// (`cargo xtask test --deep`), so many that nobody has run before. `LOGFORCE_SEEDS=N` takes the first
/// N, `LOGFORCE_SEED=N` that one alone.
pub fn seeds(of_a_change: u64, deep: u64) -> std::ops::Range<u64> {
    if let Some(seed) = from_env("LOGFORCE_SEED") {
        return seed..seed + 1;
    }
    let from = from_env("LOGFORCE_FROM").unwrap_or(0);
    let count = match is_deep() {
        true => deep,
        false => of_a_change,
    };
    from..from + from_env("LOGFORCE_SEEDS").unwrap_or(count)
}

/// Whether tests are to do all they can.
pub fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

/// A number from the environment, for tests that can be told how much to do.
pub fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
