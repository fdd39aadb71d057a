//! SQLite through the VFS `logforce` beside the same SQLite through its VFS `unix`.
//!
//! - `contender` has the ways to open a database, `case` the workloads, `database` the settings of both.
//! - `run` runs one contender once: `commits` by one or several connections, `others` for reads, bulk
//!   loads, checkpoints and short-lived connections.
//! - `rounds` lets the contenders of each case take turns; `report` prints the table.

mod case;
mod commits;
mod contender;
mod database;
mod flags;
mod others;
mod report;
mod rounds;
mod run;
mod turn;

pub use case::{Case, Task, all};
pub use contender::{Contender, register};
pub use flags::main;
pub use run::run;
pub use turn::{Effort, Run};
