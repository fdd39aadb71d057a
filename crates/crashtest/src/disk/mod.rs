//! A disk whose plug can be pulled: a process of its own that serves one file through FUSE.
//!
//! It keeps what was written apart from what is stable until a flush comes, holds back the
//! completion of a random share of the writes, and at a cut keeps a random part of the unflushed.
//! Everything is answered by an error from then on. The suite commands it by lines of JSON
//! ([`Command`], [`CutReport`]).
//!
//! Another one, [`run_slow`], is only slow: what it is given is there, and answered after a while.
//!
//! The process must never wait for the filesystem that it carries: it locks its memory, and reports
//! the kernel that it does the I/O that frees memory.

mod cache;
mod control;
mod power;
mod record;
pub(crate) mod serve;
mod slow;

pub use cache::{Cache, Met, SECTOR, Survival};
pub use control::{Command, Setup, run};
pub use power::{Cut, CutReport, Fail, FailKind, Flushes, Settings};
pub use record::{Event, EventKind, Recording};
pub use slow::{Delays, SlowSetup, run_slow};
