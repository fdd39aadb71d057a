//! Embedded stores, as all benchmarks open and name them.

#[cfg(feature = "sqlite")]
pub mod sqlite {
    use crate::rivals::versions::locked;
    use anyhow::{Result, bail};
    use rusqlite::Connection;
    use std::path::Path;

    /// Version of SQLite and of its Rust binding.
    pub fn version() -> String {
        format!("{} (rusqlite {})", rusqlite::version(), locked("rusqlite"))
    }

    /// Opens a database with `journal_mode = WAL` and `synchronous = FULL`. With `exclusive` no other
    /// connection may use it, and SQLite needs no shared memory for the index of its log.
    pub fn connect(path: &Path, exclusive: bool) -> Result<Connection> {
        let connection = Connection::open(path)?;
        if exclusive {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            bail!("SQLite keeps the journal mode {mode}");
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }
}

/// Version of LMDB and of its Rust binding.
#[cfg(feature = "lmdb")]
pub fn lmdb_version() -> String {
    // The version that the package contains; the binding has no call that returns it.
    format!(
        "0.9.24 (lmdb-rkv {})",
        crate::rivals::versions::locked("lmdb-rkv")
    )
}
