//! The databases that `logforce bench inserts` measures beside the log, as [`SalesLedger`]s.
//!
//! SQLite is compiled in. PostgreSQL, MariaDB and MySQL are reached through their ordinary clients: a
//! server that runs already, by URL, or a throw-away one that is started in a temporary directory from
//! what is installed, and is gone afterwards.
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

pub use setup::DatabaseSetup;

use logforce_measure::inserts::SalesLedger;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// What there is of a system.
pub enum Listed {
    /// Its settings.
    Ledgers(Vec<Box<dyn SalesLedger>>),
    /// Nothing, and how to get it, in a sentence.
    Missing(String),
}

/// What a server that runs already is called in reports: a throw-away one may stand beside it.
fn by_url(system: &str) -> String {
    format!("{system} by URL")
}

/// The name of a table that nobody else has.
fn table_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |t| t.as_micros());
    let (pid, nth) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    format!("logforce_bench_sale_{pid}_{now}_{nth}")
}
