//! The shipped log under shuttle: its own locks, atomics, waits and wakes, on the simulated disk,
//! in schedules drawn at random and by priorities that change a few times (PCT).
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle --cfg planted" CARGO_TARGET_DIR=target/interleavings \
//!     cargo test -p logforce-sim --test interleavings
//! ```
//!
//! `LOGFORCE_SCHEDULES` says how many schedules of each test; a failure prints its seed, and
//! `LOGFORCE_SEED` runs that one again. With `--cfg planted` each known bug of the list is tried as
//! well, and has to be caught.
//!
//! What holds in every schedule: every call returns (else shuttle reports a deadlock); what is
//! acknowledged is on the medium at that moment, with everything before it; nothing is in flight
//! when the log is closed.

#![cfg(shuttle)]

mod backpressure;
mod commits;
mod failures;
mod handles;
mod harness;
#[cfg(planted)]
mod known_bugs;
mod medium;
mod page_files;
mod truncating;
mod world;
