//! Page files compared with plain writes, as engines without page files do them, and with stores that
//! manage pages themselves. All change the same pages of a file that is already full, in the same run;
//! each commit is durable.
//!
//! - `case` defines the commits: pages per commit, their distribution, number of threads.
//! - `subjects/` has one file per rival.
//! - `slice` runs one subject once; `bench` runs all of them in turns; `report` prints the tables.

mod bench;
mod case;
mod flags;
mod report;
mod slice;
mod store;
mod subjects;

pub use bench::main;
