//! The Windows backend.
//!
//! - `directory`, `file`: the two traits; `open_directory`: what files keep of a directory. `names` renames and removes what is open.
//! - `in_flight`: writes under way, over what a test can put in the system's place; `overlapped`
//!   (unsafe): the system's own, with the memory it works on. `flush` (unsafe), and the crate's `extent`
//!   knows when one of the data alone is enough.
//! - `handle`, `security` (unsafe): opening; `path`: what is opened.
//! - `lock` (unsafe): the call behind one writer per directory.
//! - `facts`, from `volume` and `control` (unsafe); `disk`, which asks, by `storage` and `protocol`,
//!   which take answers apart. `overwrite`: which files are overwritten where they lie.
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
