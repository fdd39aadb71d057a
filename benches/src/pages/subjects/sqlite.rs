//! SQLite with a write-ahead log.

use super::keyed::{FILL, changed, filled};
use crate::embedded::sqlite;
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use crate::rivals::take;
use anyhow::Result;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Mutex;

/// SQLite with `journal_mode = WAL`, `synchronous = FULL`.
pub struct Sqlite;

impl PageStore for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn settings(&self) -> String {
        "values of 4000 bytes, journal_mode=WAL, synchronous=FULL, locking_mode=EXCLUSIVE, checkpoints \
         after as many pages as the page file's distance holds; one writer at a time"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let connection = sqlite::connect(&dir.join("pages.db"), true)?;
        connection.pragma_update(None, "cache_size", -(256 << 10))?;
        connection.pragma_update(None, "wal_autocheckpoint", (layout.distance / 4096) as i64)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS pages (id INTEGER PRIMARY KEY, data BLOB)",
        )?;
        let rows: i64 = connection.query_row("SELECT count(*) FROM pages", [], |row| row.get(0))?;
        let mut next = rows as u64;
        while next < layout.pages {
            let end = layout.pages.min(next + FILL);
            connection.execute_batch("BEGIN")?;
            for page in next..end {
                connection
                    .prepare_cached("INSERT INTO pages VALUES (?, ?)")?
                    .execute((page as i64, filled(page).as_slice()))?;
            }
            connection.execute_batch("COMMIT")?;
            next = end;
        }
        Ok(Box::new(Open(Mutex::new(connection))))
    }
}

struct Open(Mutex<Connection>);

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let connection = take(&self.0)?;
        connection.prepare_cached("BEGIN")?.execute([])?;
        for &page in change.pages {
            let page = page as i64;
            let before = || {
                let mut select = connection
                    .prepare_cached("SELECT data FROM pages WHERE id = ?")
                    .ok()?;
                select.query_row([page], |row| row.get(0)).ok()
            };
            let value = changed(change, before);
            connection
                .prepare_cached("UPDATE pages SET data = ? WHERE id = ?")?
                .execute((value.as_slice(), page))?;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        let connection = take(&self.0)?;
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        Ok(())
    }
}
