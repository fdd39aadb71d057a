//! The databases that `logforce bench inserts` measures beside the log, as [`SalesLedger`]s.
//!
//! SQLite is compiled in. PostgreSQL, MariaDB and MySQL are reached through their ordinary clients. The
//! server is either a running one, given by URL, or a throw-away one. A throw-away server is started
//! from the installed programs in a temporary directory, which is removed afterwards.
//!
//! Without the feature `clients` the crate is empty.
//!
//! [`SalesLedger`]: logforce_measure::inserts::SalesLedger

#![forbid(unsafe_code)]
#![cfg(feature = "clients")]

mod error;
pub mod mysql;
pub mod postgres;
#[cfg(unix)]
mod server;
mod setup;
pub mod sqlite;
mod worth;

/// Binding of SQLite, for crash tests of the command.
pub use rusqlite;
pub use setup::DatabaseSetup;

use logforce_measure::inserts::SalesLedger;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of looking for a database system.
pub enum Listed {
    /// Ledgers, one for each setting.
    Ledgers(Vec<Box<dyn SalesLedger>>),
    /// The system is missing; a sentence on how to install it.
    Missing(String),
}

/// Returns the name of a running server in reports, which differs from that of a throw-away one.
fn by_url(system: &str) -> String {
    format!("{system} by URL")
}

/// Returns a table name that is unique in the server.
fn table_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |t| t.as_micros());
    let (pid, nth) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    format!("logforce_bench_sale_{pid}_{now}_{nth}")
}
