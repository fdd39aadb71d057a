//! The engines with their settings.

use super::{Engine, lmdb, raft_engine, redb, sled, sqlite};
use anyhow::Result;
use std::ops::RangeInclusive;
use std::path::Path;

/// An engine with settings.
pub struct Mode {
    pub name: &'static str,
    /// Lengths of the values, bytes.
    pub sizes: RangeInclusive<usize>,
    /// Opens the store, or creates it.
    pub open: fn(&Path) -> Result<Box<dyn Engine>>,
}

/// Lengths for most modes, bytes: several values share a page.
const SMALL: RangeInclusive<usize> = 40..=1540;
/// Length for SQLite's rollback journal, bytes. Each commit needs new pages, so that a lost name of the journal is
/// the only loss of a commit whose files are synced.
const PAGES: RangeInclusive<usize> = 5_000..=5_000;

const fn mode(
    name: &'static str,
    sizes: RangeInclusive<usize>,
    open: fn(&Path) -> Result<Box<dyn Engine>>,
) -> Mode {
    Mode { name, sizes, open }
}

/// All modes.
pub const MODES: [Mode; 13] = [
    mode("sqlite-wal-full", SMALL, |d| sqlite::open(d, "WAL", "FULL")),
    mode("sqlite-wal-normal", SMALL, |d| {
        sqlite::open(d, "WAL", "NORMAL")
    }),
    mode("sqlite-wal-off", SMALL, |d| sqlite::open(d, "WAL", "OFF")),
    mode("sqlite-delete-extra", PAGES, |d| {
        sqlite::open(d, "DELETE", "EXTRA")
    }),
    mode("sqlite-delete-full", PAGES, |d| {
        sqlite::open(d, "DELETE", "FULL")
    }),
    mode("sqlite-delete-off", PAGES, |d| {
        sqlite::open(d, "DELETE", "OFF")
    }),
    mode("redb-immediate", SMALL, |d| {
        redb::open(d, ::redb::Durability::Immediate)
    }),
    mode("redb-none", SMALL, |d| {
        redb::open(d, ::redb::Durability::None)
    }),
    mode("lmdb-default", SMALL, |d| {
        lmdb::open(d, ::lmdb::EnvironmentFlags::empty())
    }),
    mode("lmdb-nosync", SMALL, |d| {
        lmdb::open(d, ::lmdb::EnvironmentFlags::NO_SYNC)
    }),
    mode("raft-engine-sync", SMALL, |d| raft_engine::open(d, true)),
    mode("raft-engine-nosync", SMALL, |d| raft_engine::open(d, false)),
    mode("sled-flush", SMALL, sled::open),
];
