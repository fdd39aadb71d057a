//! SQLite with a write-ahead log.

use crate::embedded::sqlite;
use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use anyhow::Result;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Mutex;

/// SQLite with `journal_mode = WAL`, `synchronous = FULL`.
pub struct Sqlite;

/// Size of the blob that only fills the log, bytes: more than the 1000 pages after which a checkpoint
/// runs.
const FILLER: i32 = 5 << 20;

fn connection(dir: &Path) -> Result<Connection> {
    sqlite::connect(&dir.join("records.db"), true)
}

impl Rival for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn version(&self) -> String {
        sqlite::version()
    }

    fn settings(&self) -> String {
        "journal_mode=WAL, synchronous=FULL (fdatasync), locking_mode=EXCLUSIVE (no shared memory), \
         checkpoints after 1000 pages as by default and a log that is already that long, one \
         prepared INSERT per transaction into a table of rowid and blob"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::OneByOne
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Sqlite {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let connection = connection(dir)?;
        connection.execute_batch("CREATE TABLE records (id INTEGER PRIMARY KEY, data BLOB)")?;
        lengthen(&connection)?;
        Ok(Box::new(Open(Mutex::new(connection))))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let connection = connection(dir)?;
        let mut select = connection.prepare("SELECT data FROM records")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            found.see(row.get_ref(0)?.as_blob()?);
        }
        Ok(true)
    }
}

/// Grows the log to its full length, so that commits overwrite it and need not allocate blocks. A
/// database that has run for a while has such a log.
fn lengthen(connection: &Connection) -> Result<()> {
    connection.execute_batch("CREATE TABLE filler (data BLOB)")?;
    connection.execute("INSERT INTO filler VALUES (zeroblob(?))", [FILLER])?;
    // The next transaction starts at the front of the log.
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    Ok(())
}

struct Open(Mutex<Connection>);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let connection = take(&self.0)?;
        // Without BEGIN and COMMIT each statement is a transaction.
        connection
            .prepare_cached("INSERT INTO records (data) VALUES (?)")?
            .execute([record])?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let connection = self.0.into_inner();
        if let Ok(connection) = connection {
            connection.close().map_err(|(_, e)| e)?;
        }
        Ok(())
    }
}
