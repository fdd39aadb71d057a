//! Ways to open a database that are compared.

use anyhow::{Context, Result};
use serde::Serialize;

/// A VFS with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// SQLite's VFS `unix`. The ratios refer to it.
    Stock,
    /// SQLite's VFS `unix` once more. Its ratio to [`Contender::Stock`] is noise.
    Control,
    /// The VFS `logforce`.
    Logforce,
    /// The VFS `logforce`; commits of several connections share a sync.
    Grouped,
    /// The VFS `logforce`; each commit is durable within 20 ms.
    Bounded,
}

impl Contender {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Stock => "stock",
            Contender::Control => "control",
            Contender::Logforce => "logforce",
            Contender::Grouped => "group commit",
            Contender::Bounded => "within 20 ms",
        }
    }

    /// Returns the name of the VFS.
    pub fn vfs(self) -> &'static str {
        match self {
            Contender::Stock | Contender::Control => "unix",
            Contender::Logforce | Contender::Grouped | Contender::Bounded => "logforce",
        }
    }

    /// Returns the statements that a connection needs after its journal mode is set.
    pub fn setup(self) -> &'static str {
        match self {
            Contender::Stock | Contender::Control | Contender::Logforce => "",
            Contender::Grouped => "PRAGMA logforce_group_commit = ON",
            Contender::Bounded => "PRAGMA logforce_force_within = 20",
        }
    }

    /// Returns a query that fails if another VFS opened the database.
    pub fn proof(self) -> &'static str {
        match self {
            Contender::Stock | Contender::Control => "SELECT 1",
            _ => "SELECT logforce_vfs_in_use('main')",
        }
    }
}

/// Registers the VFS `logforce` in this process. Repeated calls have no effect.
///
/// # Errors
/// Returns SQLite's error.
pub fn register() -> Result<()> {
    logforce_sqlite::register().context("registering the VFS `logforce`")
}

/// Returns the call by which the linked SQLite syncs files. SQLite's source decides by a definition of the
/// compiler, which the build of this crate sees as well.
pub fn sync_call() -> &'static str {
    let flags = option_env!("LIBSQLITE3_FLAGS").unwrap_or("");
    let is_defined = |flag| ["-DHAVE_FDATASYNC", "-DHAVE_FDATASYNC=1"].contains(&flag);
    if flags.split_whitespace().any(is_defined) {
        "fdatasync, as in the packages of distributions"
    } else {
        "fsync, unlike in the packages of distributions: build with LIBSQLITE3_FLAGS=-DHAVE_FDATASYNC=1"
    }
}
