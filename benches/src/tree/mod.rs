//! The example tree compared with embedded stores that are trees as well: the same keys in the same run,
//! each put durable when it returns.
//!
//! - `stores/` has one file per store: how it is opened with its best durable settings, and how it does
//!   each operation.
//! - `operation` defines the operations, `slice` runs one of them for a while with some threads,
//!   `rounds` runs all of them in turns, `report` prints.

mod bench;
mod flags;
mod keys;
mod operation;
mod report;
mod rounds;
mod slice;
mod store;
mod stores;

pub use bench::main;
pub use keys::Keys;
pub use operation::Operation;
pub use slice::{Until, run};
pub use store::{Opened, Reader, Store};
pub use stores::{LOGFORCE, all};
