//! Benchmarks for developers of Logforce. In this directory:
//!
//! ```text
//! cargo bench --bench files                       durable files beside fdatasync and a group commit by hand
//! cargo bench --bench group                       beside a simple group commit and a raw loop
//! cargo bench --bench many                        many logs in one process, with and without an environment
//! cargo bench --bench pages --features rivals     page files beside plain writes and other stores
//! cargo bench --bench pairs                       one thread beside a raw loop; recovery, memory
//! cargo bench --bench rivals --features rivals    beside other logs and stores; `rivals,go` has etcd's and HashiCorp's
//! cargo bench --bench sqlite --features sqlite    SQLite with the VFS `logforce` beside its own
//! cargo bench --bench tree --features trees       the example tree beside LMDB, redb and SQLite
//! ```
//!
//! `cargo run --release --features engines --bin engines` is a workload for `logforce crashtest`.
//!
//! Users measure with `logforce bench`. All benches here use its workers, clock, histograms and logs
//! (`logforce-measure`). The module `place` provides the directory in which they run.

#![forbid(unsafe_code)]

#[cfg(any(feature = "sqlite", feature = "lmdb"))]
mod embedded;
#[cfg(feature = "engines")]
pub mod engines;
pub mod files;
pub mod group;
pub mod many;
pub mod pages;
pub mod pairs;
mod place;
pub mod rivals;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod target;
pub mod tree;
