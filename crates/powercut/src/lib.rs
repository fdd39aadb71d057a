//! Real power cuts: the shipped library on real filesystems of a real kernel, over a disk whose
//! plug can be pulled.
//!
//! `cargo xtask powercut` runs it. A disk process ([`disk`]) keeps what was not flushed apart, a
//! subject ([`subject`]) works the log hard and writes into a ledger ([`ledger`]) what it was
//! promised, and after each cut the survivor is opened and compared ([`check`]). Linux only: it
//! takes root, FUSE, loop devices and the `mkfs` of each filesystem, and says what is missing.

#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod check;
pub mod ledger;
pub mod live;
mod outage;
pub mod own;
pub mod pages;
pub mod process;
pub mod replay;
pub mod report;
pub mod selfcheck;
pub mod subject;
