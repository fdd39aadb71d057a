//! Disks in user space: each is a separate process that serves one file through FUSE.
//!
//! [`run`] serves a disk whose power can be cut. It keeps written data apart from stable data until a flush comes, and
//! delays the completion of a random share of the writes. A power cut keeps a random part of the unflushed data. From
//! then on every read, write and flush fails. The suite commands the disk with lines of JSON ([`Command`],
//! [`CutReport`]).
//!
//! [`run_slow`] serves a disk that is only slow: it stores writes at once and answers them after a delay.
//!
//! The process must never wait for the filesystem that it carries. It locks the memory that it has at its start, and
//! tells the kernel that its I/O frees memory. Otherwise it could wait for memory that the kernel can free only by
//! writing to this disk, and both would hang.

mod cache;
mod control;
mod power;
mod record;
pub(crate) mod serve;
mod slow;

pub use cache::{Cache, Met, Piece, SECTOR, Survival};
pub use control::{Command, Setup, run};
pub use power::{Cut, CutReport, Fail, FailKind, Flushes, Settings};
pub use record::{Event, EventKind, Recording, now};
pub use slow::{Delays, SlowSetup, run_slow};
