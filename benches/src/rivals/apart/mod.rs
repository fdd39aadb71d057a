//! Subjects in separate processes: the Go programs of `go/`, and each part of the bulk comparison, so
//! that its memory can be measured.
//!
//! For commits requested from here, the communication with the Go program would be measured as well. So
//! the Go program runs a whole turn by itself, with the same records, and reports the result. `task` has
//! the messages between both, `process` starts one and ends it in any case, `program` builds the Go
//! program, `subjects` has its logs.

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
