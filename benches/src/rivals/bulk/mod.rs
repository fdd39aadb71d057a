//! Bulk: many small records and one force at the end, and the time to read them back.
//!
//! Each part runs in a separate process, so that its memory can be measured and no state of the previous
//! part is left in it. `subjects/` has the work, `child` the child process, `turn` runs one subject
//! once, `rounds` runs all of them in turns, `table` prints the results.

pub mod child;
mod rounds;
mod subjects;
mod table;
pub mod turn;

pub use rounds::all;
pub use subjects::{Bulk, here, of};
pub use table::{BulkRow, Measured, below, rows, tables};
