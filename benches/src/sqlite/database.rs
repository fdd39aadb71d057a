//! Database of one turn.

use super::case::Case;
use super::contender::Contender;
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for which a connection waits for another one.
const BUSY: Duration = Duration::from_secs(60);
/// Bytes of a row.
const ROW: usize = 100;

/// Path and settings of a database.
#[derive(Clone)]
pub struct Database<'c> {
    path: PathBuf,
    case: &'c Case,
    contender: Contender,
}

impl<'c> Database<'c> {
    /// Returns a database in `dir` that does not exist yet.
    pub fn new(dir: &Path, case: &'c Case, contender: Contender) -> Database<'c> {
        let name = match case.journal {
            "memory" => PathBuf::from(":memory:"),
            _ => dir.join("db"),
        };
        Database {
            path: name,
            case,
            contender,
        }
    }

    /// Returns another database in the same directory, with the same settings.
    pub fn sibling(&self, number: u64) -> Database<'c> {
        Database {
            path: self.path.with_extension(number.to_string()),
            ..self.clone()
        }
    }

    /// Opens the database, or creates it, with the settings of the case.
    ///
    /// # Errors
    /// Returns SQLite's error, or an error if the journal mode is not available.
    pub fn open(&self) -> Result<Connection> {
        let (flags, vfs) = (OpenFlags::default(), self.contender.vfs());
        let connection = Connection::open_with_flags_and_vfs(&self.path, flags, vfs)?;
        connection.busy_timeout(BUSY)?;
        let journal = self.case.journal;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", journal, |row| row.get(0))?;
        ensure!(mode == journal, "SQLite keeps the journal mode {mode}");
        connection.pragma_update(None, "synchronous", self.case.synchronous)?;
        connection.execute_batch(self.contender.setup())?;
        Ok(connection)
    }

    /// Opens the database and creates the table.
    ///
    /// # Errors
    /// Returns SQLite's error, or an error if another VFS opened the database.
    pub fn create(&self) -> Result<Connection> {
        let connection = self.open()?;
        if self.case.journal != "memory" {
            let proof = self.contender.proof();
            connection
                .execute_batch(proof)
                .context("asking for the VFS")?;
        }
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")?;
        Ok(connection)
    }

    /// Fails if the table has other than `rows` rows, or the database is damaged. Opens it by SQLite's
    /// own VFS. A database in memory is gone.
    ///
    /// # Errors
    /// Returns the difference, or SQLite's error.
    pub fn check(&self, rows: u64) -> Result<()> {
        if self.case.journal == "memory" {
            return Ok(());
        }
        let connection =
            Connection::open_with_flags_and_vfs(&self.path, OpenFlags::default(), "unix")?;
        let found: u32 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
        ensure!(
            u64::from(found) == rows,
            "{found} rows are in the table, {rows} were committed"
        );
        let verdict: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        ensure!(verdict == "ok", "integrity_check: {verdict}");
        Ok(())
    }
}

/// Inserts `rows` rows in one transaction.
///
/// # Errors
/// Returns SQLite's error.
pub fn insert(connection: &Connection, rows: u32) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert = connection.prepare_cached("INSERT INTO t (data) VALUES (?)")?;
    let mut data = [b'.'; ROW];
    for row in 0..rows {
        data[..4].copy_from_slice(&row.to_be_bytes());
        insert.execute([&data[..]])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
