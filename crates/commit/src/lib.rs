//! Parts of a durable commit that a log and a file share, and durable files.
//!
//! - [`sync`]: events and wakers to wait on, poison.
//! - [`write_concurrency`]: the limit of writes in flight.
//! - [`method`] and [`advisor`]: the choice of the method by which a force is made.
//!
//! - [`file`](mod@file): files of any format whose writes become durable by group commit, on these parts.
//!
//! The log (crate `logforce-core`) is built on these parts. Users depend on the crate `logforce`.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod advisor;
pub mod file;
pub mod lock_wait;
pub mod method;
pub mod metrics;
pub mod sync;
pub mod write_concurrency;
