//! Bulk: many small records and one force at the end, and how long it takes to read them back.
//!
//! Each part is done by a process of its own, so that its memory can be told and nothing of the
//! part before is left in it: `subjects/` is what it does, `child` its side, `turn` one subject
//! once, `rounds` all of them in turns, `table` what they come to.

pub mod child;
mod rounds;
mod subjects;
mod table;
pub mod turn;

pub use rounds::all;
pub use subjects::{Bulk, here, of};
pub use table::{BulkRow, below, rows, tables};
