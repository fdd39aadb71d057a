//! The connections that commit, each in a thread.

use super::plan::{self, Change, SLOTS, changes, payload};
use super::{Job, Mode, PAUSE, SIDE, STOCK, Sabotage, connect};
use crate::ledger::{Entry, Kind, LedgerWriter};
use anyhow::{Context, Result};
use logforce_crashtest::disk::now;
use logforce_testkit::Rng;
use rusqlite::{Connection, ErrorCode};
use std::time::{Duration, Instant};

/// Code of a wrong result that SQLite has returned without an error.
const WRONG: u64 = 1;
/// Number that is added to a transaction's in what is rolled back.
const ROLLED_BACK: u64 = 1 << 30;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS row(thread INTEGER, slot INTEGER, number INTEGER, payload BLOB);
    CREATE UNIQUE INDEX IF NOT EXISTS row_by_slot ON row(thread, slot);
    CREATE INDEX IF NOT EXISTS row_by_number ON row(number);
    CREATE TABLE IF NOT EXISTS last(thread INTEGER PRIMARY KEY, number INTEGER);
    CREATE TABLE IF NOT EXISTS counter(total INTEGER);
    INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter);";
const SIDE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS side.last(thread INTEGER PRIMARY KEY, number INTEGER)";

/// Runs until a call fails, the time is over, or the process is killed.
///
/// # Errors
/// If the database cannot be opened. That is how it ends where the cut came before or while opening.
pub fn run(job: &Job) -> Result<()> {
    let threads = job.first_thread..job.first_thread + job.mode.threads();
    let mut ledgers = threads
        .clone()
        .map(|n| LedgerWriter::open(&job.ledger, n))
        .collect::<std::io::Result<Vec<_>>>()
        .context("the ledger")?;
    if !job.is_stock {
        logforce_sqlite::register()?;
    }
    let mut rng = Rng::new(job.seed);
    if !job.dir.exists() {
        std::fs::create_dir(&job.dir)?;
        logforce::file::sync_parent(&job.dir)?;
    }
    let settings = Settings {
        bound: rng.pick(&[2, 20]),
        page_size: rng.pick(&[1024, 4096, 4096]),
        cache: rng.pick(&[10, 500]),
        auto_checkpoint: rng.pick(&[20, 200]),
    };
    let first = open(job, &settings).context("opening")?;
    create(&first, job).context("creating the tables")?;
    let last = |thread| last_of(&first, thread);
    let numbers = threads
        .clone()
        .map(last)
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (ledger, number) in ledgers.iter_mut().zip(&numbers) {
        ledger.put(Entry {
            sequence: *number,
            end: match job.mode {
                Mode::WalBounded => settings.bound,
                _ => 0,
            },
            ..Entry::of(Kind::Opened)
        });
    }
    let mut first = Some(first).filter(|_| rng.one_in(2));
    std::thread::scope(|scope| {
        for ((thread, ledger), number) in threads.zip(ledgers).zip(numbers) {
            let worker = Worker {
                job,
                settings: &settings,
                thread,
                ledger,
                number,
                db: first.take(),
                rng: Rng::new(job.seed ^ ((thread as u64 + 1) << 40)),
            };
            scope.spawn(move || worker.work());
        }
    });
    Ok(())
}

/// Settings of a session that do not change what a commit survives.
struct Settings {
    /// Bound of [`Mode::WalBounded`], milliseconds.
    bound: u64,
    page_size: u64,
    /// Pages in memory. With few, a large transaction writes before it commits.
    cache: u64,
    auto_checkpoint: u64,
}

fn open(job: &Job, settings: &Settings) -> rusqlite::Result<Connection> {
    let vfs = if job.is_stock {
        STOCK
    } else {
        logforce_sqlite::VFS
    };
    let db = connect(&job.dir, vfs)?;
    if !job.is_stock {
        db.query_row("SELECT logforce_vfs_in_use('main')", (), |_| Ok(()))?;
    }
    db.pragma_update(None, "page_size", settings.page_size)?;
    if job.has_side() {
        db.execute("ATTACH ? AS side", [job.dir.join(SIDE).to_string_lossy()])?;
    }
    let [mut journal, mut synchronous] = job.mode.settings();
    match job.sabotage {
        Sabotage::None => {}
        Sabotage::NoSync => synchronous = "off",
        Sabotage::NoJournal => journal = "memory",
    }
    let set = |schema: &str| {
        let name = format!("{schema}.journal_mode");
        again(|| {
            db.query_row(&format!("PRAGMA {name} = {journal}"), (), |_| Ok(()))?;
            db.pragma_update(Some(schema), "synchronous", synchronous)
        })
    };
    set("main")?;
    if job.has_side() {
        set("side")?;
    }
    db.pragma_update(None, "cache_size", settings.cache)?;
    db.pragma_update(None, "wal_autocheckpoint", settings.auto_checkpoint)?;
    match job.mode {
        Mode::WalBounded if !job.is_stock => {
            db.pragma_update(None, "logforce_force_within", settings.bound)?
        }
        Mode::WalGroup if !job.is_stock => db.pragma_update(None, "logforce_group_commit", "on")?,
        _ => {}
    }
    Ok(db)
}

/// Repeats `act` while another connection is in the way.
fn again<T>(mut act: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    loop {
        match act() {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Makes the tables, those of the second database first.
fn create(db: &Connection, job: &Job) -> rusqlite::Result<()> {
    if job.has_side() {
        db.execute_batch(SIDE_TABLE)?;
    }
    db.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT"))
}

/// Returns the number of a thread's last transaction.
fn last_of(db: &Connection, thread: usize) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce(max(number), 0) FROM last WHERE thread = ?";
    let mut last = db.prepare_cached(sql)?;
    last.query_row([thread as u64], |row| row.get(0))
}

/// A thread with its connection.
struct Worker<'a> {
    job: &'a Job,
    settings: &'a Settings,
    thread: usize,
    ledger: LedgerWriter,
    /// Number of the last transaction.
    number: u64,
    db: Option<Connection>,
    rng: Rng,
}

/// Failure of a thread.
enum Failure {
    Sqlite(rusqlite::Error),
    Wrong(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

type Done<T = ()> = Result<T, Failure>;

impl Worker<'_> {
    /// Works until the first failure, and writes it down: only a power cut explains one.
    fn work(mut self) {
        let until = Instant::now() + Duration::from_millis(self.job.millis);
        while Instant::now() < until && !self.ledger.is_nearly_full() {
            let Err(failure) = self.step() else {
                continue;
            };
            let code = match failure {
                Failure::Sqlite(e) => {
                    eprintln!("thread {}: {e}", self.thread);
                    let code = e.sqlite_error().map_or(WRONG as i32, |e| e.extended_code);
                    u64::from(code.unsigned_abs())
                }
                Failure::Wrong(what) => {
                    eprintln!("thread {}: {what}", self.thread);
                    WRONG
                }
            };
            self.ledger.put(Entry {
                sequence: code,
                start: self.number,
                ..Entry::of(Kind::Failed)
            });
            return;
        }
    }

    fn step(&mut self) -> Done {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.opened()?,
        };
        match self.rng.below(48) {
            0 => {
                if let Err((_, e)) = db.close() {
                    return Err(e.into());
                }
                return Ok(());
            }
            1 if self.job.mode.is_wal() => {
                let how = self.rng.pick(&["PASSIVE", "FULL", "RESTART", "TRUNCATE"]);
                again(|| db.query_row(&format!("PRAGMA wal_checkpoint({how})"), (), |_| Ok(())))?;
            }
            2..4 => self.roll_back(&db)?,
            4..9 => self.read(&db)?,
            _ => self.commit(&db)?,
        }
        self.db = Some(db);
        Ok(())
    }

    /// Opens a connection, which must show this thread's last transaction.
    fn opened(&self) -> Done<Connection> {
        let db = open(self.job, self.settings)?;
        let found = last_of(&db, self.thread)?;
        match found == self.number {
            true => Ok(db),
            false => Err(Failure::Wrong(format!(
                "a new connection shows transaction {found}, {} is committed",
                self.number
            ))),
        }
    }

    /// Makes the changes of a transaction, as number `number`.
    fn write(&self, db: &Connection, changes: &[Change], number: u64) -> Done {
        let mut put = db.prepare_cached("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)")?;
        let mut delete = db.prepare_cached("DELETE FROM row WHERE thread = ? AND slot = ?")?;
        let thread = self.thread as u64;
        for Change { slot, len } in changes {
            match len {
                Some(len) => {
                    let payload = payload(self.thread, *slot, (number, *len));
                    put.execute((thread, slot, number, payload))?
                }
                None => delete.execute((thread, slot))?,
            };
        }
        let mut last = db.prepare_cached("INSERT OR REPLACE INTO last VALUES (?, ?)")?;
        last.execute((thread, number))?;
        Ok(())
    }

    fn commit(&mut self, db: &Connection) -> Done {
        let number = self.number + 1;
        let changes = changes(self.thread, number);
        again(|| db.execute_batch("BEGIN IMMEDIATE"))?;
        if self.rng.one_in(10) {
            db.execute_batch("SAVEPOINT part")?;
            self.write(db, &changes, number + ROLLED_BACK)?;
            db.execute_batch("ROLLBACK TO part")?;
        }
        self.write(db, &changes, number)?;
        if self.job.has_side() && plan::is_wide(self.thread, number) {
            let mut last = db.prepare_cached("INSERT OR REPLACE INTO side.last VALUES (?, ?)")?;
            last.execute((self.thread as u64, number))?;
        }
        let total: u64 = db
            .prepare_cached("UPDATE counter SET total = total + 1 RETURNING total")?
            .query_row((), |row| row.get(0))?;
        let entry = |kind| Entry {
            sequence: number,
            start: total,
            end: now(),
            ..Entry::of(kind)
        };
        self.ledger.put(entry(Kind::RecordRange));
        again(|| db.execute_batch("COMMIT"))?;
        self.ledger.put(entry(Kind::Acked));
        self.number = number;
        Ok(())
    }

    fn roll_back(&mut self, db: &Connection) -> Done {
        let number = self.number + 1;
        let mut changes = changes(self.thread, number);
        changes.extend((0..self.rng.below(100)).map(|slot| Change {
            slot,
            len: Some(700),
        }));
        again(|| db.execute_batch("BEGIN IMMEDIATE"))?;
        self.write(db, &changes, number + ROLLED_BACK)?;
        Ok(db.execute_batch("ROLLBACK")?)
    }

    /// Reads a row of a thread, and the number of its last transaction.
    fn read(&mut self, db: &Connection) -> Done {
        let count = self.job.mode.threads() as u64;
        let thread = self.job.first_thread + self.rng.below(count) as usize;
        again(|| db.execute_batch("BEGIN"))?;
        let last = again(|| last_of(db, thread))?;
        let slot = self.rng.below(SLOTS);
        let mut row =
            db.prepare_cached("SELECT number, payload FROM row WHERE thread = ? AND slot = ?")?;
        let found = row.query_map((thread as u64, slot), |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })?;
        let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
        db.execute_batch("COMMIT")?;
        let right = plan::rows(thread, last).get(&slot).copied();
        let expected = right.map(|row| (row.0, payload(thread, slot, row)));
        if found.first() != expected.as_ref() {
            return Err(Failure::Wrong(format!(
                "slot {slot} of thread {thread} is {:?} after transaction {last}, not {right:?}",
                found.first().map(|f| f.0)
            )));
        }
        self.ledger.put(Entry {
            sequence: last,
            start: thread as u64,
            ..Entry::of(Kind::Shown)
        });
        Ok(())
    }
}
