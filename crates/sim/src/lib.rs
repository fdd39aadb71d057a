//! Proof in simulation: the shipped log on a simulated disk, against a model of what must hold.
//!
//! `model` says what must be there after any failure, `work` makes a log do things and fail, and
//! the tests of this crate put the two together, by subject. `victim` is a log of which everything
//! is known, to be damaged; `still` is where that is opened a million times.

pub mod fuzz;
pub mod life;
pub mod model;
pub mod plants;
pub mod still;
pub mod victim;
pub mod work;

/// A number from the environment, for tests that can be told how much to do.
pub fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
