//! Interface between the log and the storage that keeps its bytes.
//!
//! It has three parts. Through them the same log runs on a real disk, on a simulated one, and under a
//! scheduler that a test controls:
//!
//! - [`Directory`] and [`File`]: names and bytes, writes submitted and completed, barriers.
//! - [`Runtime`]: time, threads, waiting and waking.
//! - [`Facts`]: properties of a device as the system reports them, from which [`Facts::assess`] derives the
//!   [`Guarantee`] of a [`Method`] and the [`Verdict`] on it.
//!
//! [`write_out`] keeps several writes in flight on top of them.
//!
//! This crate does not know LSNs, and makes no system calls.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod block_device;
mod buffer;
#[doc(hidden)]
pub mod date;
mod directory;
mod event;
mod facts;
pub mod failure;
mod file;
mod filesystem_kind;
mod guarantee;
mod method;
mod named_files;
#[doc(hidden)]
pub mod planted;
mod runtime;
pub mod sync;
mod wrapper;
pub mod write_out;

pub use block_device::{AtomicWrite, BlockDevice, DirectAlignment, WriteCache};
pub use buffer::AlignedBuf;
pub use directory::{Access, DirEntry, Directory, FileIdentity, OpenFile, System, Whereabouts};
pub use event::Event;
pub use facts::{CutEvidence, CutResult, Facts, Layer, Reading};
pub use file::{Barrier, Blocks, Completion, File, ReadSource, Ticket, Write, WriteQueue};
pub use filesystem_kind::FilesystemKind;
pub use guarantee::{Assessment, Granted, Guarantee, Source, Verdict};
pub use method::{FileState, ForceBy, Method, Plan, Platform, UnknownMethod};
pub use named_files::{Displacement, NamedFiles, change_of, directory_displaced};
pub use runtime::{JoinHandle, Panicked, Runtime};
pub use wrapper::{ForwardDirectory, ForwardFile};
