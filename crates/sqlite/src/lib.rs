//! A VFS for SQLite: durable commits that are faster, a bounded loss with `synchronous=NORMAL`, and the truth
//! about both.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let path = dir.path().join("till.db");
//! logforce_sqlite::register()?;
//! let flags = rusqlite::OpenFlags::default();
//! let db = rusqlite::Connection::open_with_flags_and_vfs(&path, flags, logforce_sqlite::VFS)?;
//! db.query_row("SELECT logforce_vfs_in_use()", (), |_| Ok(()))?; // an error if it is not
//! db.pragma_update(None, "journal_mode", "WAL")?;
//! db.execute_batch("CREATE TABLE sale(cents INTEGER); INSERT INTO sale VALUES (250)")?;
//! let survives: String = db.query_row(
//!     "SELECT logforce_durability('main') ->> '$.summary'", (), |row| row.get(0))?;
//! println!("{survives}");
//! # Ok(())
//! # }
//! ```
//!
//! The VFS works over SQLite's own and changes no file format: SQLite without it opens, shares and recovers
//! every file at any time, beside it or after it. The guide `docs/guide/sqlite.md` says which settings suit
//! whom, and has the measurements.
//!
//! | SQL | effect |
//! |---|---|
//! | `SELECT logforce_durability('main')` | JSON: the failures that a commit survives, on whose word, and what may be lost. For databases of any VFS |
//! | `SELECT logforce_stats()` | JSON: commits, syncs and bytes of this connection |
//! | `SELECT logforce_vfs_in_use()` | 1, or an error |
//! | `PRAGMA logforce_force_within=20` | with `journal_mode=WAL` and `synchronous=NORMAL`: commits are durable within 20 ms |
//! | `PRAGMA logforce_group_commit=ON` | with `journal_mode=WAL` and `synchronous=FULL`: connections of a process share syncs |
//!
//! Both pragmas are parameters of a URI too: `file:till.db?vfs=logforce&logforce_force_within=20`.

#![deny(unsafe_op_in_unsafe_fn)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod by_process;
mod connection;
mod durability;
mod ffi;
mod forced;
mod gather;
mod identity;
mod journal;
mod stats;
mod stock;
mod wal;

#[doc(hidden)]
pub use ffi::extension_entry;

/// Name of the VFS.
pub const VFS: &str = "logforce";

/// Failure to register the VFS.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Registers the VFS [`VFS`] with the SQLite that this program links, and adds the functions to all
/// connections that are opened later. Open a database by name of the VFS to use it. May be called again.
///
/// # Errors
/// If SQLite refuses, or has another VFS of that name.
#[cfg(feature = "linked")]
pub fn register() -> Result<(), Error> {
    ffi::register_linked(false).map_err(Error)
}

/// Registers the VFS as [`register`] does, and makes it the default one: connections that are opened later use
/// it without naming it.
///
/// # Errors
/// The errors of [`register`].
#[cfg(feature = "linked")]
pub fn register_default() -> Result<(), Error> {
    ffi::register_linked(true).map_err(Error)
}
