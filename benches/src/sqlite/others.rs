//! Operations other than commits, by one connection.

use super::database::insert;
use super::turn::{Turn, failed};
use anyhow::{Result, ensure};
use rusqlite::Connection;

/// Adds rows to the table, in one transaction.
const FILL: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
    INSERT INTO t (data) SELECT zeroblob(400) FROM n";
/// Number of rows of the table whose checkpoints are measured.
const FILLED: u32 = 20_000;
/// Changes a row on at least every second page, 1,000 pages in all. Each change is another one.
const CHANGE: &str = "UPDATE t SET data = randomblob(400) WHERE id % 20 = 0";
/// Distance of the keys that are read in turn. It has no common factor with the number of rows, so that
/// all of them are read.
const STRIDE: u32 = 7_368_787;

/// Measures reads of one row.
pub(super) fn points(turn: &mut Turn<'_>) -> Result<()> {
    let connection = loaded(turn)?;
    let mut select = connection.prepare("SELECT data FROM t WHERE id = ?")?;
    let mut key = 0;
    let rows = turn.effort.rows;
    again(turn, || {
        key = (key + STRIDE) % rows;
        Ok(select.query_row([key + 1], |row| row.get_ref(0).map(|_| ()))?)
    })
}

/// Measures reads of the table.
pub(super) fn scan(turn: &mut Turn<'_>) -> Result<()> {
    let connection = loaded(turn)?;
    let mut select = connection.prepare("SELECT count(*), sum(length(data)) FROM t")?;
    let rows = turn.effort.rows;
    again(turn, || {
        let found: u32 = select.query_row([], |row| row.get(0))?;
        ensure!(found == rows, "{found} of {rows} rows were read");
        Ok(())
    })
}

/// Measures loads in one transaction, each into a new database.
pub(super) fn bulk(turn: &mut Turn<'_>) -> Result<()> {
    let (limit, rows) = (turn.effort.limit(), turn.effort.rows);
    let mut number = 0;
    while turn.recorder.more(&limit) {
        number += 1;
        let database = turn.database.sibling(number);
        let connection = database.create()?;
        once(turn, || Ok(insert(&connection, rows)?))?;
        drop(connection);
        database.check(u64::from(rows))?;
    }
    Ok(())
}

/// Measures checkpoints.
pub(super) fn checkpoint(turn: &mut Turn<'_>) -> Result<()> {
    let connection = turn.database.create()?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0")?;
    connection.execute(FILL, [FILLED])?;
    checkpointed(&connection)?;
    let limit = turn.effort.limit();
    while turn.recorder.more(&limit) {
        connection.execute(CHANGE, [])?;
        once(turn, || {
            let pages = checkpointed(&connection)?;
            ensure!(pages >= 1_000, "the log had {pages} pages");
            Ok(())
        })?;
    }
    drop(connection);
    turn.database.check(u64::from(FILLED))
}

/// Runs a checkpoint of the whole log, and returns the number of its pages.
fn checkpointed(connection: &Connection) -> Result<u32> {
    let sql = "PRAGMA wal_checkpoint(RESTART)";
    let (busy, pages): (u32, u32) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(2)?)))?;
    ensure!(busy == 0, "the checkpoint did not end");
    Ok(pages)
}

/// Measures connections with one commit each.
pub(super) fn short(turn: &mut Turn<'_>) -> Result<()> {
    drop(turn.database.create()?);
    let limit = turn.effort.limit();
    let mut committed = 0;
    let database = turn.database.clone();
    while turn.recorder.more(&limit) {
        once(turn, || {
            let connection = database.open()?;
            insert(&connection, 1)?;
            connection.close().map_err(|(_, e)| e)?;
            Ok(())
        })?;
        committed += 1;
    }
    database.check(committed)
}

/// Creates a database with the whole table.
fn loaded(turn: &Turn<'_>) -> Result<Connection> {
    let connection = turn.database.create()?;
    insert(&connection, turn.effort.rows)?;
    Ok(connection)
}

/// Times `operation` until the turn ends.
fn again(turn: &mut Turn<'_>, mut operation: impl FnMut() -> Result<()>) -> Result<()> {
    let limit = turn.effort.limit();
    turn.counted(|recorder| {
        recorder.timed(|laps| {
            while laps.more(&limit) {
                operation().map_err(failed)?;
                laps.commit();
            }
            Ok(())
        })
    })
}

/// Times `operation` once.
fn once(turn: &mut Turn<'_>, operation: impl FnOnce() -> Result<()>) -> Result<()> {
    turn.counted(|recorder| {
        recorder.timed(|laps| {
            operation().map_err(failed)?;
            laps.commit();
            Ok(())
        })
    })
}
