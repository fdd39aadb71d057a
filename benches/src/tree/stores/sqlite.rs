//! SQLite with a write-ahead log.

use crate::embedded::sqlite;
use crate::rivals::turn::take;
use crate::tree::keys::Key;
use crate::tree::store::{Opened, Reader, Store};
use anyhow::Result;
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// SQLite with `journal_mode = WAL`, `synchronous = FULL`.
pub struct Sqlite;

fn connection(path: &Path) -> Result<Connection> {
    let connection = sqlite::connect(path, false)?;
    // A negative value is in KiB.
    connection.pragma_update(None, "cache_size", -(256 << 10))?;
    connection.query_row("PRAGMA mmap_size = 1073741824", [], |_| Ok(()))?;
    Ok(connection)
}

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn version(&self) -> String {
        sqlite::version()
    }

    fn settings(&self) -> String {
        "journal_mode=WAL, synchronous=FULL (fdatasync), checkpoints after 1000 pages as by \
         default, mmap_size of 1 GiB, cache_size of 256 MiB, a table WITHOUT ROWID with the key as \
         primary key; one prepared statement a transaction, by one connection in turns; a \
         connection for each reading thread"
            .to_owned()
    }

    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>> {
        let path = dir.join("table.db");
        let writer = connection(&path)?;
        writer.execute_batch("CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")?;
        Ok(Box::new(Open {
            writer: Mutex::new(writer),
            path,
        }))
    }
}

const PUT: &str = "INSERT OR REPLACE INTO t VALUES (?, ?)";
const GET: &str = "SELECT v FROM t WHERE k = ?";
const SCAN: &str = "SELECT k, v FROM t WHERE k >= ? ORDER BY k LIMIT ?";

struct Open {
    writer: Mutex<Connection>,
    path: PathBuf,
}

impl Opened for Open {
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut writer = take(&self.writer)?;
        let write = writer.transaction()?;
        {
            let mut put = write.prepare_cached(PUT)?;
            for (key, value) in entries {
                put.execute((&key[..], &value[..]))?;
            }
        }
        Ok(write.commit()?)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let writer = take(&self.writer)?;
        // Without BEGIN and COMMIT each statement is a transaction.
        writer.prepare_cached(PUT)?.execute((&key[..], value))?;
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(connection(&self.path)?)))
    }
}

struct Reading(Connection);

impl Reading {
    fn len_of(&self, key: &Key) -> Result<Option<usize>> {
        let mut get = self.0.prepare_cached(GET)?;
        let len = get.query_row([&key[..]], |row| Ok(row.get_ref(0)?.as_blob()?.len()));
        Ok(len.optional()?)
    }
}

impl Reader for Reading {
    fn get(&mut self, key: &Key) -> Result<Option<usize>> {
        self.len_of(key)
    }

    fn get_all(&mut self, keys: &[Key]) -> Result<usize> {
        self.0.execute_batch("BEGIN")?;
        let mut found = 0;
        for key in keys {
            found += usize::from(self.len_of(key)?.is_some());
        }
        self.0.execute_batch("COMMIT")?;
        Ok(found)
    }

    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)> {
        let mut scan = self.0.prepare_cached(SCAN)?;
        let mut rows = scan.query((&from[..], count as i64))?;
        let mut seen = (0, 0);
        while let Some(row) = rows.next()? {
            let len = row.get_ref(0)?.as_blob()?.len() + row.get_ref(1)?.as_blob()?.len();
            seen = (seen.0 + 1, seen.1 + len);
        }
        Ok(seen)
    }
}
