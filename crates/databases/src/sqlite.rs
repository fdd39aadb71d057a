//! SQLite, compiled in: rollback journal and write-ahead log.

use crate::DatabaseSetup;
use crate::error::said;
use crate::worth::{SYNCED, documented, forced, sync};
use logforce_device::{Assessment, FileState, Guarantee};
use logforce_measure::MeasureError;
use logforce_measure::inserts::{Policy, ReadBack, Sale, SalesLedger, Session, Setting, Table};
use rusqlite::{Connection, params};
use std::path::PathBuf;
use std::time::Duration;

const SYSTEM: &str = "SQLite";

const INSERT: &str = "INSERT INTO sale VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

/// Time that a client waits for the others: SQLite has one writer at a time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A journal mode and a level of `synchronous`.
#[derive(Clone, Copy)]
struct Mode {
    journal: &'static str,
    synchronous: &'static str,
}

const MODES: [Mode; 5] = [
    mode("DELETE", "EXTRA"),
    mode("DELETE", "FULL"),
    mode("DELETE", "NORMAL"),
    mode("WAL", "FULL"),
    mode("WAL", "NORMAL"),
];

const fn mode(journal: &'static str, synchronous: &'static str) -> Mode {
    Mode {
        journal,
        synchronous,
    }
}

/// Returns the ledgers of all settings, in `place`.
pub fn ledgers(place: &DatabaseSetup) -> Vec<Box<dyn SalesLedger>> {
    let ledger = |mode: Mode| {
        Box::new(Sqlite {
            setting: setting(mode, place),
            mode,
            path: place.path.join("sqlite"),
        }) as Box<dyn SalesLedger>
    };
    MODES.into_iter().map(ledger).collect()
}

fn setting(mode: Mode, place: &DatabaseSetup) -> Setting {
    let policy = match (mode.journal, mode.synchronous) {
        ("WAL", "FULL") | (_, "EXTRA") => Some(Policy::Force),
        ("WAL", _) => Some(Policy::Write),
        _ => None,
    };
    Setting {
        system: SYSTEM.to_owned(),
        version: rusqlite::version().to_owned(),
        settings: format!("{}, synchronous={}", mode.journal, mode.synchronous),
        policy,
        second_log: None,
        usual: mode.journal == "WAL",
        worth: worth(mode, place),
        on_this_disk: true,
        by_fua: false,
    }
}

fn worth(mode: Mode, place: &DatabaseSetup) -> Option<Assessment> {
    let is_forced = |how| forced(&place.facts, sync(&place.facts), FileState::Growing, how);
    match (mode.journal, mode.synchronous) {
        ("WAL", "FULL") => is_forced(SYNCED),
        (_, "EXTRA") => is_forced(
            "journal and database are synced at each commit, and the directory when the journal is \
             deleted",
        ),
        ("WAL", _) => Some(documented(
            Guarantee::ProcessCrash,
            "the log is written at each commit, and synced at checkpoints only",
        )),
        (_, "FULL") => Some(documented(
            Guarantee::ProcessCrash,
            "the database is synced at each commit, but not the directory from which the journal is \
             deleted: a power cut soon after can bring the journal back, which takes the last commit \
             back; synchronous=EXTRA syncs that too",
        )),
        _ => Some(documented(
            Guarantee::ProcessCrash,
            "as with FULL, and with fewer syncs between: the manual does not exclude that a power cut \
             damages the database",
        )),
    }
}

struct Sqlite {
    setting: Setting,
    mode: Mode,
    /// Directory of the database.
    path: PathBuf,
}

impl Sqlite {
    fn file(&self) -> PathBuf {
        self.path.join("sales.db")
    }
}

/// Opens a connection in that mode.
fn connect(file: &PathBuf, mode: Mode) -> Result<Connection, MeasureError> {
    let open = || {
        let connection = Connection::open(file)?;
        connection.busy_timeout(PATIENCE)?;
        let journal: String =
            connection.pragma_update_and_check(None, "journal_mode", mode.journal, |r| r.get(0))?;
        connection.pragma_update(None, "synchronous", mode.synchronous)?;
        Ok((connection, journal))
    };
    let (connection, journal) = open().map_err(said::<rusqlite::Error>(SYSTEM, "opening"))?;
    if !journal.eq_ignore_ascii_case(mode.journal) {
        return Err(MeasureError::NotOffered(format!(
            "SQLite keeps the journal mode {journal}"
        )));
    }
    Ok(connection)
}

impl SalesLedger for Sqlite {
    fn setting(&self) -> &Setting {
        &self.setting
    }

    fn open(&self) -> Result<Box<dyn Table>, MeasureError> {
        let making = format!("making {}", self.path.display());
        std::fs::create_dir_all(&self.path).map_err(MeasureError::io(making))?;
        let keeper = connect(&self.file(), self.mode)?;
        keeper
            .execute_batch(&format!("CREATE TABLE sale ({})", Sale::COLUMNS))
            .map_err(said(SYSTEM, "making the table"))?;
        Ok(Box::new(Open {
            file: self.file(),
            mode: self.mode,
        }))
    }

    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError> {
        let connection = connect(&self.file(), self.mode)?;
        read(&connection, found).map_err(said(SYSTEM, "reading the table"))?;
        drop(connection);
        let removing = format!("removing {}", self.path.display());
        std::fs::remove_dir_all(&self.path).map_err(MeasureError::io(removing))
    }
}

fn read(connection: &Connection, found: &mut ReadBack) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!("SELECT {} FROM sale", Sale::NAMES))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        found.see(Some(&Sale {
            id: u64::try_from(id).unwrap_or(u64::MAX),
            till: row.get(1)?,
            receipt: row.get(2)?,
            line: row.get(3)?,
            quantity: row.get(4)?,
            price_cents: row.get(5)?,
            sold_at: row.get(6)?,
            article: row.get(7)?,
        }));
    }
    Ok(())
}

struct Open {
    file: PathBuf,
    mode: Mode,
}

impl Table for Open {
    fn session(&self) -> Result<Box<dyn Session>, MeasureError> {
        Ok(Box::new(Client(connect(&self.file, self.mode)?)))
    }
}

struct Client(Connection);

impl Client {
    fn insert(&self, sale: &Sale) -> rusqlite::Result<()> {
        // Without BEGIN and COMMIT each statement is a transaction.
        self.0.prepare_cached(INSERT)?.execute(params![
            sale.id.cast_signed(),
            sale.till,
            sale.receipt,
            sale.line,
            sale.quantity,
            sale.price_cents,
            sale.sold_at,
            sale.article,
        ])?;
        Ok(())
    }
}

impl Session for Client {
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError> {
        self.insert(sale).map_err(said(SYSTEM, "inserting"))
    }
}
