//! The log on a simulated disk: crashes at every operation, failing devices, damage, random lives.
//!
//! `model` says what must hold, `work` makes it happen; the rest are the tests, by subject.

mod cap;
mod committers;
mod crash;
mod damage;
mod geometry;
mod live;
mod meta;
mod model;
mod outside;
mod pins;
mod policies;
mod random;
mod recovery;
mod remote;
mod remote_cases;
mod stats;
mod trouble;
mod work;
