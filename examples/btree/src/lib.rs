//! An ordered key-value store: a B+ tree on Logforce's logged pages, as a database engine would build
//! one. It has keys of up to a quarter of a page, values of up to 64 KiB, snapshots, scans in both
//! directions, and atomic writes. Puts of many threads become durable together.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let path = dir.path().join("tree");
//! # use logforce::Guarantee;
//! use logforce::pages::Options;
//! use logforce_btree::Tree;
//! # let options = Options::new().require(Guarantee::ProcessCrash);
//! let tree = Tree::open_or_create(&path, options)?;
//! tree.put("berlin", "3.7 million")?; // durable
//!
//! let mut write = tree.begin()?; // all or nothing
//! write.put("hamburg", "1.9 million")?;
//! write.delete("berlin")?;
//! write.commit()?;
//!
//! let view = tree.snapshot()?; // stays as it is
//! assert_eq!(view.get("hamburg")?.as_deref(), Some(&b"1.9 million"[..]));
//! for entry in view.range("a".."i").rev() {
//!     let entry = entry?;
//!     println!("{:?} {:?}", entry.key(), entry.value());
//! }
//! assert!(view.check()?.is_whole());
//! tree.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! To read the code, start with [`Tree`] and [`Write`]. Then follow `node` (a page), `edit` and
//! `balance` (splits and merges), `free` (free pages), `chain` (long values), `range` (scans), `check`.

#![forbid(unsafe_code)]
// Neither bytes from the disk nor a user's mistake may abort the process.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod balance;
mod bytes;
mod chain;
mod check;
mod draft;
mod edit;
mod entry;
mod error;
mod free;
mod limits;
mod meta;
mod node;
mod range;
mod source;
mod tree;
mod view;
mod write;

pub use check::{CheckReport, Problem};
pub use entry::{Entry, Value};
pub use error::{Error, Result};
pub use limits::{MAX_VALUE, max_key};
pub use range::Range;
pub use tree::Tree;
pub use view::View;
pub use write::Write;
