//! The example tree beside embedded stores that are trees, too: the same keys, in the same run, each
//! put durable when it returns.
//!
//! - `stores/` has one file for each: how it is opened with its best durable settings, and what each
//!   operation is with it.
//! - `operation` says what is done, `slice` does it for a while with some threads; `rounds` has all of
//!   them in turns; `report` prints.

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
