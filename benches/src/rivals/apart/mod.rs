//! What runs in a process of its own: each part of the bulk comparison, so that its memory can be
//! told, and the Go programs of `go/`.
//!
//! A commit that is asked for from here would measure the way to a Go program as well, so that has
//! a whole turn to itself, with the same records, and tells what it came to. `task` is what both
//! say to each other, `process` starts one and ends it whatever happens, `program` is built by `go
//! build`, `subjects` are its logs.

mod process;
#[cfg(feature = "go")]
mod program;
#[cfg(feature = "go")]
mod subjects;
mod task;

pub use process::Process;
#[cfg(feature = "go")]
pub use program::path as program;
#[cfg(feature = "go")]
pub use subjects::{BULK, entries};
pub use task::{PartDone, Task, Work};
