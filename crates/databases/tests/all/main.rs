//! Short measurements of all databases: every row can be read back, and servers leave nothing behind.

#![cfg(feature = "clients")]

mod common;
#[cfg(unix)]
mod servers;
mod sqlite;
#[cfg(unix)]
mod urls;
