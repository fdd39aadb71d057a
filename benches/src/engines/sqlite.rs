//! SQLite.

use super::Engine;
use anyhow::{Result, ensure};
use rusqlite::Connection;
use std::path::Path;

struct Open(Connection);

/// Opens the database with this journal mode and level of `synchronous`.
pub fn open(dir: &Path, journal: &str, synchronous: &str) -> Result<Box<dyn Engine>> {
    let connection = Connection::open(dir.join("db"))?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", journal, |row| row.get(0))?;
    ensure!(
        mode.eq_ignore_ascii_case(journal),
        "SQLite keeps the journal mode {mode}"
    );
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS t (key INTEGER PRIMARY KEY, value BLOB NOT NULL)",
    )?;
    Ok(Box::new(Open(connection)))
}

impl Engine for Open {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<()> {
        // Without BEGIN and COMMIT each statement is a transaction.
        let mut insert = self.0.prepare_cached("INSERT INTO t VALUES (?, ?)")?;
        insert.execute((key.cast_signed(), value))?;
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let mut select = self.0.prepare("SELECT key, value FROM t ORDER BY key")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let key: i64 = row.get(0)?;
            see(key.cast_unsigned(), row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}
