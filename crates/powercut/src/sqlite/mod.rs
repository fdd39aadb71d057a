//! SQLite on the VFS `logforce` as the subject: several connections commit numbered transactions, whose rows
//! are a function of thread and number.
//!
//! So the check knows each row that a database must have after the last transaction of a thread that is in
//! it. Stock SQLite opens what a power cut or a kill left.

mod check;
mod cuts;
mod found;
mod kill;
mod plan;
mod promises;
mod work;

pub use check::Checked;
pub use cuts::{Run, run};
pub use kill::kills;
pub use promises::Promises;
pub use work::run as work;

use crate::pages::Counts;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of SQLite's own VFS.
const STOCK: &str = "unix";
/// File of the database.
const MAIN: &str = "main.db";
/// File of the database in which some transactions of the rollback modes write, too.
const SIDE: &str = "side.db";

/// Time between two attempts to get a lock.
const PAUSE: Duration = Duration::from_micros(300);

/// Opens a connection that waits for locks without end: another process that has one gives it back or is killed.
fn connect(dir: &Path, vfs: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut db = Connection::open_with_flags_and_vfs(dir.join(MAIN), flags, vfs)?;
    db.busy_handler(Some(|_| {
        std::thread::sleep(PAUSE);
        true
    }))?;
    Ok(db)
}

/// Journal mode and the other settings of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// WAL, FULL.
    Wal,
    /// WAL, FULL, with `logforce_group_commit`.
    WalGroup,
    /// WAL, NORMAL, with `logforce_force_within`.
    WalBounded,
    /// DELETE, FULL.
    Delete,
    /// TRUNCATE, FULL.
    Truncate,
    /// PERSIST, FULL.
    Persist,
    /// DELETE, OFF.
    DeleteOff,
}

impl Mode {
    /// The modes that survive a power cut, with their names.
    pub const DURABLE: [(&str, Mode); 6] = [
        ("wal", Mode::Wal),
        ("wal-group", Mode::WalGroup),
        ("wal-bounded", Mode::WalBounded),
        ("delete", Mode::Delete),
        ("truncate", Mode::Truncate),
        ("persist", Mode::Persist),
    ];
    /// A mode that survives kills alone.
    pub const OFF: (&str, Mode) = ("delete-off", Mode::DeleteOff);

    fn is_wal(self) -> bool {
        matches!(self, Mode::Wal | Mode::WalGroup | Mode::WalBounded)
    }

    /// Returns true if a transaction of two databases is one, after a crash too: not with a log, and not without
    /// syncs.
    fn has_side(self) -> bool {
        matches!(self, Mode::Delete | Mode::Truncate | Mode::Persist)
    }

    /// Returns the values of the pragmas `journal_mode` and `synchronous`.
    fn settings(self) -> [&'static str; 2] {
        match self {
            Mode::Wal | Mode::WalGroup => ["wal", "full"],
            Mode::WalBounded => ["wal", "normal"],
            Mode::Delete => ["delete", "full"],
            Mode::Truncate => ["truncate", "full"],
            Mode::Persist => ["persist", "full"],
            Mode::DeleteOff => ["delete", "off"],
        }
    }

    /// Returns the number of connections of a process, each with a thread.
    fn threads(self) -> usize {
        match self {
            Mode::WalGroup => 4,
            _ => 2,
        }
    }
}

/// Known fault of the subject. A suite that does not see it sees nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sabotage {
    /// None.
    None,
    /// `synchronous=OFF`: a power cut takes acknowledged commits.
    NoSync,
    /// `journal_mode=MEMORY`: a kill leaves half a transaction.
    NoJournal,
}

/// Job of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Directory of the databases.
    pub dir: PathBuf,
    /// Empty ledger for what it was promised.
    pub ledger: PathBuf,
    /// Settings of the connections.
    pub mode: Mode,
    /// True to use SQLite's own VFS.
    pub is_stock: bool,
    /// Number of the first thread.
    pub first_thread: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Fault.
    pub sabotage: Sabotage,
    /// Longest duration, milliseconds.
    pub millis: u64,
}

impl Job {
    fn has_side(&self) -> bool {
        self.mode.has_side() && self.sabotage != Sabotage::NoJournal
    }
}

/// Counts of one kind of fault.
#[derive(Debug, Default, Clone, Serialize)]
pub struct SqliteCounts {
    /// Counts that every subject has.
    #[serde(flatten)]
    pub counts: Counts,
    /// Acknowledged commits that were not there.
    pub lost: u64,
    /// Age of the oldest of them when the last acknowledged one began to commit, milliseconds.
    pub oldest_lost_ms: f64,
}

impl SqliteCounts {
    fn take(&mut self, checked: Checked, wrong: Option<String>, grain: u64, could_lose: bool) {
        self.lost += checked.outcome.lost;
        let oldest = checked.oldest_lost.as_secs_f64() * 1e3;
        self.oldest_lost_ms = self.oldest_lost_ms.max(oldest);
        let outcome = checked.outcome.after_cut(wrong, grain);
        self.counts.take(outcome, could_lose);
    }
}
