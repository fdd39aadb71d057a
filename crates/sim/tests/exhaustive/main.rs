//! Everything, where that is little enough: every bit of a log flipped, every length of every file,
//! every order of directory changes, every pair of crashes of a short workload.
//!
//! Each test prints what it counted. `LOGFORCE_EXHAUSTIVE=all` does by every way what otherwise is
//! done by the cheaper ways only; the counts say which.

mod bits;
mod expect;
mod failing_calls;
#[cfg(planted)]
mod known_bugs;
mod lengths;
mod logs;
mod names;
mod pairs;
mod regions;
mod workers;
