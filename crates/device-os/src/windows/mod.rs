//! The Windows backend.
//!
//! - `directory`, `file`: the two traits; `open_directory`: the part of a directory that files keep. `names`
//!   renames and removes open files.
//! - `in_flight`: writes in flight, over a starter that tests can replace; `overlapped` (unsafe): writes of
//!   the system, with their memory. `flush` (unsafe): flushes; the crate's `extent` decides when one of the
//!   data alone suffices.
//! - `handle`, `security` (unsafe): opening files; `path`: their paths.
//! - `lock` (unsafe): the call behind one writer per directory.
//! - `facts`, from `volume` and `control` (unsafe); `disk`, which queries the disk, and `storage` and
//!   `protocol`, which parse the answers. `overwrite`: files that are overwritten in place.
//! - `mapping` (unsafe): a file in memory.
//! - `runtime`, `machine` (unsafe): waiting, random bits, the version, other processes,
//!   processor time.
//! - `trace`, in tests only: the calls that were made.
//!
//! Code without calls of Windows (`disk`, `in_flight`, `overwrite`, `path`, `protocol`, `storage`) is
//! compiled and tested on every system.

mod disk;
mod in_flight;
mod overwrite;
mod path;
mod protocol;
mod storage;

#[cfg(windows)]
mod control;
#[cfg(windows)]
pub(crate) mod directory;
#[cfg(windows)]
mod facts;
#[cfg(windows)]
mod file;
#[cfg(windows)]
mod flush;
#[cfg(windows)]
mod handle;
#[cfg(windows)]
pub(crate) mod lock;
#[cfg(windows)]
mod machine;
#[cfg(windows)]
pub(crate) mod mapping;
#[cfg(windows)]
mod names;
#[cfg(windows)]
mod open_directory;
#[cfg(windows)]
mod overlapped;
#[cfg(windows)]
mod retry;
#[cfg(windows)]
pub(crate) mod runtime;
#[cfg(windows)]
mod security;
#[cfg(all(windows, test))]
mod trace;
#[cfg(windows)]
mod volume;

#[cfg(windows)]
pub(crate) mod error;

#[cfg(windows)]
pub use machine::{is_running, machine, process_times};
