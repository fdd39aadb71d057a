//! Real power cuts: the shipped library on real filesystems of a real kernel, over a disk whose plug can be pulled.
//!
//! `cargo xtask powercut` runs them. The disk process ([`logforce_crashtest::disk`]) keeps unflushed data apart. A
//! subject ([`subject`]) works the log hard, and writes into a ledger ([`ledger`]) what it was promised. After each cut
//! the survivor is opened and compared with the ledger ([`check`]). Linux only: the suite needs root, FUSE, loop devices
//! and the `mkfs` of each filesystem, and reports what is missing.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod bench;
pub mod check;
pub mod files;
pub mod ledger;
pub mod log;
pub mod own;
pub mod pages;
pub mod process;
mod raw;
pub mod report;
pub mod selfcheck;
pub mod sqlite;
pub mod started;
pub mod subject;
