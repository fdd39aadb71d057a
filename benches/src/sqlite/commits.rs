//! Commits by one or several connections.

use super::database::{Database, insert};
use super::turn::{Turn, failed};
use anyhow::Result;
use logforce_measure::workers::{Step, Work, together};
use logforce_measure::{Limit, MeasureError};
use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Number of commits in a new database that count as fresh.
const FRESH: u64 = 500;
/// Commits of each connection before the clock starts, except in a fresh database.
const WARM_UP: u32 = 3;
/// Size of the blob that only lengthens the log, bytes: more than the 1000 pages after which a
/// checkpoint runs.
const FILLER: u32 = 5 << 20;

/// Measures commits of `rows` rows. Fresh databases follow one another until the turn ends.
pub(super) fn measure(turn: &mut Turn<'_>, fresh: bool, connections: u32, rows: u32) -> Result<()> {
    if !fresh {
        let (database, limit) = (turn.database.clone(), turn.effort.limit());
        return commit(turn, &database, &limit, WARM_UP, (connections, rows));
    }
    let limit = Limit {
        commits: turn.effort.operations.map_or(FRESH, |n| n.min(FRESH)),
        time: None,
    };
    for number in 1.. {
        let database = turn.database.sibling(number);
        commit(turn, &database, &limit, 0, (connections, rows))?;
        if turn.effort.operations.is_some() || turn.recorder.time() >= turn.effort.time {
            break;
        }
        turn.recorder.interrupt().check()?;
        turn.recorder.begin_slice();
    }
    Ok(())
}

/// Measures commits in a new database. A warm-up of at least one commit also lengthens its log.
fn commit(
    turn: &mut Turn<'_>,
    database: &Database<'_>,
    limit: &Limit,
    warm_up: u32,
    (connections, rows): (u32, u32),
) -> Result<()> {
    let mut opened = vec![database.create()?];
    if warm_up > 0 {
        lengthen(&opened[0])?;
    }
    for _ in 1..connections {
        opened.push(database.open()?);
    }
    for connection in &opened {
        (0..warm_up).try_for_each(|_| insert(connection, rows))?;
    }
    let work = Commits {
        opened: Mutex::new(opened),
        rows,
        committed: AtomicU64::new(u64::from(connections * warm_up)),
    };
    // Returns the connections, so that none is closed in the timed part: the last one to close runs a
    // checkpoint.
    let workers = turn.counted(|recorder| together(&work, connections, limit, recorder))?;
    drop(workers);
    database.check(work.committed.load(Relaxed) * u64::from(rows))
}

/// Grows the log to its full length, so that commits overwrite it and need not allocate blocks.
fn lengthen(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TABLE filler (data BLOB)")?;
    connection.execute("INSERT INTO filler VALUES (zeroblob(?))", [FILLER])?;
    // The next transaction starts at the front of the log. Without a log, this has no effect.
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
}

struct Commits {
    opened: Mutex<Vec<Connection>>,
    rows: u32,
    committed: AtomicU64,
}

impl Work for Commits {
    type Worker = Connection;

    fn worker(&self, _: u32) -> Result<Connection, MeasureError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || MeasureError::NotOffered("a connection is missing".to_owned());
        opened.pop().ok_or_else(missing)
    }

    fn step(&self, connection: &mut Connection, began: Instant) -> Result<Step, MeasureError> {
        insert(connection, self.rows).map_err(failed)?;
        self.committed.fetch_add(1, Relaxed);
        Ok(Step { began, more: true })
    }
}
