//! Contents of a database, read by stock SQLite.

use super::plan::{last_wide, payload, rows};
use super::{MAIN, Mode, SIDE, STOCK, connect};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;

/// Contents of a database, as far as they need comparing.
#[derive(Debug, Clone, Default)]
pub struct Found {
    last: BTreeMap<usize, u64>,
    /// Number of transactions of all threads.
    pub total: u64,
    /// Rows and indexes that are wrong whatever was promised.
    pub broken: Vec<String>,
}

impl Found {
    /// Returns the contents after these transactions.
    #[cfg(test)]
    pub fn new(last: BTreeMap<usize, u64>, total: u64) -> Found {
        Found {
            last,
            total,
            broken: Vec::new(),
        }
    }

    /// Returns the number of a thread's last transaction.
    pub fn last(&self, thread: usize) -> u64 {
        self.last.get(&thread).copied().unwrap_or(0)
    }
}

/// Reads the database in one transaction. Another process may write meanwhile.
///
/// # Errors
/// The errors of SQLite.
pub fn read(dir: &Path, mode: Mode) -> rusqlite::Result<Found> {
    let mut found = Found::default();
    if !dir.join(MAIN).exists() {
        return Ok(found);
    }
    let db = connect(dir, STOCK)?;
    let side = dir.join(SIDE);
    let has_side = mode.has_side() && side.exists();
    if has_side {
        db.execute("ATTACH ? AS side", [side.to_string_lossy()])?;
    }
    db.execute_batch("BEGIN")?;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'last'";
    if db.query_row(tables, (), |row| row.get::<_, u64>(0))? == 0 {
        // With a bound, the transaction that makes them may be lost with all later ones.
        return Ok(found);
    }
    let check: String = db.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if check != "ok" {
        found.broken.push(format!("integrity_check: {check}"));
    }
    found.total = db.query_row("SELECT total FROM counter", (), |row| row.get(0))?;
    found.last = lasts(&db, "main")?;
    compare(&db, &mut found)?;
    // Its table was made first.
    if has_side {
        let side = lasts(&db, "side")?;
        for (thread, last) in &found.last {
            let (is, should) = (side.get(thread), last_wide(*thread, *last));
            if is.copied().unwrap_or(0) != should {
                found.broken.push(format!(
                    "thread {thread}: the last transaction in the second database is {is:?}, {last} in the first; it \
                     should be {should}"
                ));
            }
        }
    }
    db.execute_batch("COMMIT")?;
    if let Err((_, e)) = db.close() {
        found
            .broken
            .push(format!("the database does not close: {e}"));
    }
    Ok(found)
}

/// Returns the number of the last transaction of each thread.
fn lasts(db: &Connection, of: &str) -> rusqlite::Result<BTreeMap<usize, u64>> {
    let mut last = db.prepare(&format!("SELECT thread, number FROM {of}.last"))?;
    let rows = last.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Compares each row with the one that it must be after the thread's last transaction.
fn compare(db: &Connection, found: &mut Found) -> rusqlite::Result<()> {
    for (thread, last) in found.last.clone() {
        let mut should = rows(thread, last);
        let mut all = db.prepare("SELECT slot, number, payload FROM row WHERE thread = ?")?;
        let mut all = all.query([thread as u64])?;
        let mut wrong = None;
        while let Some(row) = all.next()? {
            let (slot, number): (u64, u64) = (row.get(0)?, row.get(1)?);
            let found: Vec<u8> = row.get(2)?;
            let is_right = should.remove(&slot).is_some_and(|expected| {
                expected.0 == number && found == payload(thread, slot, expected)
            });
            if !is_right {
                wrong.get_or_insert(format!("slot {slot} is of transaction {number}"));
            }
        }
        if let Some(slot) = should.keys().next() {
            wrong.get_or_insert(format!("slot {slot} is missing"));
        }
        if let Some(wrong) = wrong {
            found
                .broken
                .push(format!("thread {thread} after transaction {last}: {wrong}"));
        }
    }
    Ok(())
}
