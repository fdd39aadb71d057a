//! The databases, measured a little: every row is there afterwards, and of servers nothing is left.

#![cfg(feature = "clients")]

mod common;
#[cfg(unix)]
mod servers;
mod sqlite;
#[cfg(unix)]
mod urls;
