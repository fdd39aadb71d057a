//! Page files side by side with what engines do without one, and with stores that keep pages
//! themselves: the same pages of a file that is already full, in the same run, each commit durable.
//!
//! - `case` says what is committed: pages a commit, where they lie, how many threads.
//! - `subjects/` has one file per rival.
//! - `slice` runs one of them once; `bench` runs all of them in turns; `report` prints.

mod bench;
mod case;
mod flags;
mod report;
mod slice;
mod store;
mod subjects;

pub use bench::main;
