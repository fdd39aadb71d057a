//! The shipped log under shuttle: its own locks, atomics, waits and wakes, on the simulated disk, in random
//! schedules and in schedules by priorities that change a few times (PCT).
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle --cfg planted" CARGO_TARGET_DIR=target/interleavings \
//!     cargo test -p logforce-sim --test interleavings
//! ```
//!
//! `LOGFORCE_SCHEDULES` sets the number of schedules of each test. A failure prints its seed, and
//! `LOGFORCE_SEED` runs that one again. With `--cfg planted` each known bug of the list is tried as well and
//! must be caught.
//!
//! In every schedule every call returns (otherwise shuttle reports a deadlock), an acknowledged record is on
//! the medium at that moment together with everything before it, and nothing is in flight when the log is
//! closed.

#![cfg(shuttle)]

mod backpressure;
mod commits;
mod failing_files;
mod failures;
mod files;
mod handles;
mod harness;
#[cfg(planted)]
mod known_bugs;
mod medium;
mod page_files;
mod replicas;
mod truncating;
mod world;
