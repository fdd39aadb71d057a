//! Tests of the VFS through SQLite, beside SQLite's own VFS.

mod bad_input;
mod bounded;
#[cfg(target_os = "linux")]
mod full_disk;
mod journals;
#[cfg(planted)]
mod known_bugs;
mod loading;
mod logs;

use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// SQLite's own VFS.
#[cfg(unix)]
const STOCK: &str = "unix";
#[cfg(windows)]
const STOCK: &str = "win32";

/// Directory of a test, in the target folder: its filesystem is one that keeps files.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Opens a database by this VFS; `parameters` are those of a URI.
fn ours(path: &Path, parameters: &str) -> Connection {
    logforce_sqlite::register().unwrap();
    let db = open(path, logforce_sqlite::VFS, parameters).unwrap();
    let one: i64 = value(&db, "SELECT logforce_vfs_in_use()");
    assert_eq!(one, 1);
    db
}

/// Opens a database by SQLite's own VFS.
fn stock(path: &Path) -> Connection {
    open(path, STOCK, "").unwrap()
}

fn open(path: &Path, vfs: &str, parameters: &str) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?vfs={vfs}{parameters}", path.display());
    let db = Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI)?;
    db.busy_timeout(Duration::from_secs(20))?;
    Ok(db)
}

/// Returns the first value of the first row.
fn value<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, (), |row| row.get(0))
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// Sets journal mode and synchronisation, and creates the table `t` if it is missing.
fn set_up(db: &Connection, mode: &str, synchronous: &str) {
    let now: String = value(db, &format!("PRAGMA journal_mode={mode}"));
    assert_eq!(now.to_lowercase(), mode.to_lowercase());
    db.execute_batch(&format!("PRAGMA synchronous={synchronous}"))
        .unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, b BLOB)")
        .unwrap();
}

/// Commits rows of `bytes` random bytes, one in a transaction.
fn insert(db: &Connection, rows: usize, bytes: i64) {
    for _ in 0..rows {
        db.execute("INSERT INTO t(b) VALUES (randomblob(?))", [bytes])
            .unwrap();
    }
}

fn count(db: &Connection) -> i64 {
    value(db, "SELECT count(*) FROM t")
}

/// Checks that the database is whole, and has that number of rows.
fn check(db: &Connection, rows: i64) {
    let answer: String = value(db, "PRAGMA integrity_check");
    assert_eq!(answer, "ok");
    assert_eq!(count(db), rows);
}

/// Copies the files of a database as a crash of the process would leave them, without shared memory.
fn crashed(path: &Path, to: &Path) -> PathBuf {
    let name = path.file_name().unwrap();
    for suffix in ["", "-wal", "-journal"] {
        let mut file = name.to_owned();
        file.push(suffix);
        let from = path.with_file_name(&file);
        if from.exists() {
            std::fs::copy(from, to.join(&file)).unwrap();
        }
    }
    to.join(name)
}

/// Returns a value of the JSON that a function answers.
fn field(db: &Connection, function: &str, name: &str) -> serde_json::Value {
    let json: String = value(db, &format!("SELECT {function}"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json[name].clone()
}
