//! The databases that `logforce bench inserts` measures beside the log, as [`Ledger`]s.
//!
//! SQLite is compiled in. PostgreSQL, MariaDB and MySQL are reached through their ordinary clients: a
//! server that runs already, by URL, or a throw-away one that is started in a temporary directory from
//! what is installed, and is gone afterwards.
//!
//! Without the feature `clients` the crate is empty.
//!
//! [`Ledger`]: logforce_measure::inserts::Ledger

#![forbid(unsafe_code)]
#![cfg(feature = "clients")]

mod error;
mod place;
pub mod sqlite;
mod worth;

pub use place::Place;
