//! One connection's database file: its settings, and the commit of its transactions.

use crate::forced::Forced;
use crate::journal::Slot;
use crate::stats::Stats;
use crate::stock::{CANNOT_OPEN, Code, SYNC_FAILED};
use logforce_device::planted;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    /// True while this thread commits a transaction of several database files. SQLite ignores errors of the
    /// second phase then.
    pub static HAS_SUPER_JOURNAL: Cell<bool> = const { Cell::new(false) };
}

/// Commits of a connection that SQLite's own VFS syncs. To open the log for syncs takes as long as about three
/// commits, and saves a third of each commit that follows. Many programs commit only a few times.
const COMMITS_BY_STOCK: u64 = 32;

/// State that a connection's database file shares with its write-ahead log and its rollback journal. SQLite
/// lets one thread at a time into a connection; the atomics only make that safe in Rust's eyes.
pub struct Connection {
    /// Path of the database.
    path: PathBuf,
    /// Bound of what a power cut may lose with `synchronous=NORMAL`, milliseconds; 0 for none.
    force_within: AtomicU64,
    /// True if commits of several connections share a sync.
    groups: AtomicBool,
    /// Counts what ends a stage of the log: the lock of writers, an unlock, a published commit.
    turn: AtomicU64,
    /// True while the connection holds the lock of writers and may leave a sync to the second phase.
    may_group: AtomicBool,
    /// True once the connection has opened its write-ahead log by this VFS.
    has_log: AtomicBool,
    /// True from a commit frame to the second phase of the commit.
    is_committed: AtomicBool,
    /// True if SQLite has asked for a sync of that commit.
    is_synced: AtomicBool,
    /// True if that sync is left to the second phase.
    is_due: AtomicBool,
    /// True if a commit was left to the background.
    is_bounded: AtomicBool,
    forced: Mutex<Option<Arc<Forced>>>,
    /// True if the log could not be opened for syncs.
    is_unforced: AtomicBool,
    /// The rollback journal that is kept.
    pub slot: Arc<Slot>,
    pub stats: Arc<Stats>,
}

impl Connection {
    pub fn new(path: PathBuf, slot: Arc<Slot>) -> Connection {
        Connection {
            path,
            force_within: AtomicU64::new(0),
            groups: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            may_group: AtomicBool::new(false),
            has_log: AtomicBool::new(false),
            is_committed: AtomicBool::new(false),
            is_synced: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            is_bounded: AtomicBool::new(false),
            forced: Mutex::new(None),
            is_unforced: AtomicBool::new(false),
            slot,
            stats: Arc::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bound of `PRAGMA logforce_force_within`, milliseconds; 0 for none.
    pub fn force_within(&self) -> u64 {
        self.force_within.load(SeqCst)
    }

    /// Sets that bound.
    pub fn set_force_within(&self, milliseconds: u64) {
        self.force_within.store(milliseconds, SeqCst);
    }

    /// Returns the setting `PRAGMA logforce_group_commit`.
    pub fn groups(&self) -> bool {
        self.groups.load(SeqCst)
    }

    /// Changes that setting.
    pub fn set_groups(&self, groups: bool) {
        self.groups.store(groups, SeqCst);
    }

    /// Notes that the write-ahead log is open.
    pub fn log_is_open(&self) {
        self.has_log.store(true, SeqCst);
    }

    /// Returns false if the log was left to the VFS below, where no setting of this one has an effect.
    pub fn has_log(&self) -> bool {
        self.has_log.load(SeqCst)
    }

    /// Returns a number that changes when a stage of the log ends.
    pub fn turn(&self) -> u64 {
        self.turn.load(SeqCst)
    }

    /// Notes that the lock of writers was taken or released, and if the sync of a commit may come after the release.
    pub fn write_lock(&self, may_group: bool) {
        self.may_group.store(may_group, SeqCst);
        self.end_turn();
    }

    /// Notes that no transaction of this connection runs any more.
    pub fn end_turn(&self) {
        self.turn.fetch_add(1, SeqCst);
    }

    /// Fails if a commit cannot be made durable as the settings ask for. Nothing has been committed yet.
    ///
    /// # Errors
    /// [`SYNC_FAILED`], `SQLITE_CANTOPEN`; the reason is in SQLite's log.
    pub fn check_commit(&self) -> Result<(), Code> {
        self.check()?;
        match self.force_within() > 0 && self.opened().is_none() {
            true => Err(CANNOT_OPEN),
            false => Ok(()),
        }
    }

    /// Notes that a transaction is in the file, with its commit frame.
    pub fn committed(&self) {
        self.is_committed.store(true, SeqCst);
        self.is_synced.store(false, SeqCst);
    }

    /// Returns the number of syncs of the log by this process.
    pub fn log_syncs(&self) -> u64 {
        self.forced().as_ref().map_or(0, |forced| forced.syncs())
    }

    fn forced(&self) -> MutexGuard<'_, Option<Arc<Forced>>> {
        self.forced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what makes the log durable: after [`COMMITS_BY_STOCK`], or if a setting needs it.
    fn opened(&self) -> Option<Arc<Forced>> {
        let mut forced = self.forced();
        let needed =
            self.groups() || self.force_within() > 0 || self.stats.commits() >= COMMITS_BY_STOCK;
        if forced.is_none() && needed && !self.is_unforced.load(SeqCst) {
            let mut known = self.slot.log();
            *forced = Forced::of(&self.path, known.upgrade());
            *known = forced.as_ref().map(Arc::downgrade).unwrap_or_default();
            self.is_unforced.store(forced.is_none(), SeqCst);
        }
        forced.clone()
    }

    /// Returns true if commits that overwrite cost less than commits that extend the file.
    pub fn gains_by_overwriting(&self) -> bool {
        let forced = self.forced();
        forced.as_ref().is_some_and(|f| f.overwrites_in_place())
    }

    /// Makes the commit durable whose frame was written last, as `synchronous=FULL` asks for. With group
    /// commit, the second phase does: it comes after the write lock is released.
    ///
    /// # Errors
    /// [`SYNC_FAILED`], or those of `sync`, the sync of the VFS below.
    pub fn sync_commit(&self, sync: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        self.is_synced.store(true, SeqCst);
        let Some(forced) = self.opened() else {
            self.stats.synced();
            return sync();
        };
        if self.may_group.load(SeqCst) && !HAS_SUPER_JOURNAL.get() {
            // Without the write lock, SQLite may go on to a checkpoint with this log without a second phase.
            self.is_due.store(true, SeqCst);
            return Ok(());
        }
        self.stats.synced();
        forced.commit()
    }

    /// Ends a transaction: the write lock is released, and the program has no answer yet.
    ///
    /// # Errors
    /// [`SYNC_FAILED`] if the commit is not durable, or may not be within the bound.
    pub fn second_phase(&self) -> Result<(), Code> {
        self.stats.committed();
        self.end_turn();
        if !self.is_committed.swap(false, SeqCst) {
            return Ok(());
        }
        if self.is_due.swap(false, SeqCst) {
            if planted!("sqlite-group-not-waited-for") {
                return Ok(());
            }
            self.stats.synced();
            return self.opened().ok_or(SYNC_FAILED)?.commit();
        }
        let within = self.force_within();
        if within > 0 && !self.is_synced.load(SeqCst) {
            self.is_bounded.store(true, SeqCst);
            let forced = self.opened().ok_or(SYNC_FAILED)?;
            return forced.commit_within(Duration::from_millis(within));
        }
        Ok(())
    }

    /// Fails if a sync of the log has failed, so that no statement builds on what may be lost.
    ///
    /// # Errors
    /// [`SYNC_FAILED`].
    pub fn check(&self) -> Result<(), Code> {
        match self.failure() {
            Some(reason) if !planted!("sqlite-failed-sync-forgotten") => {
                crate::ffi::log(SYNC_FAILED, &reason);
                Err(SYNC_FAILED)
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason why the log cannot be made durable any more, and the remedy.
    pub fn failure(&self) -> Option<String> {
        let failure = match &*self.forced() {
            Some(forced) => forced.failure(),
            // A sync by another connection may have failed. A commit behind what that one lost would be lost too.
            None => self.slot.log().upgrade().and_then(|log| log.failure()),
        };
        failure.or_else(|| self.slot.failure.get().cloned())
    }

    /// Waits until the connection's commits are durable that were left to the background.
    pub fn settle(&self) {
        let forced = self.forced().take();
        self.is_unforced.store(false, SeqCst);
        let Some(forced) = forced else {
            return;
        };
        if self.is_bounded.load(SeqCst) {
            let _ = forced.commit();
        }
        if let Some(reason) = forced.failure() {
            // SQLite ignores errors of closing.
            crate::ffi::log(SYNC_FAILED, &reason);
            // The kernel reports a failed sync once. Without this, a connection that opens the log again would
            // commit behind what is lost.
            self.slot.failure.get_or_init(|| reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce::file::File;
    use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};

    const BOUND: Duration = Duration::from_millis(20);

    /// Runs `body` with a connection whose log is on a simulated disk.
    fn with_connection(body: impl FnOnce(&SimRuntime, &SimDisk, &Connection)) {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            system.make_directory(Path::new("/d")).unwrap();
            let file = File::options().create(true);
            let file = logforce::internal::open_file(&*system, "/d/x.db-wal", file).unwrap();
            let slot = Arc::new(Slot::new("/d/x.db-journal".into()));
            let connection = Connection::new("/d/x.db".into(), slot);
            let forced = Arc::new(Forced::new(file));
            *connection.slot.log() = Arc::downgrade(&forced);
            *connection.forced() = Some(forced);
            body(rt, &disk, &connection);
        });
    }

    fn commit(connection: &Connection) -> Result<(), Code> {
        connection.check()?;
        connection.committed();
        connection.second_phase()
    }

    #[test]
    fn a_failed_sync_in_the_background_fails_every_later_statement() {
        with_connection(|rt, disk, connection| {
            connection.set_force_within(20);
            commit(connection).unwrap();
            rt.sleep(BOUND);
            commit(connection).unwrap();
            assert_eq!(connection.failure(), None);
            disk.fail_at(disk.ops(), Fault::Io);
            rt.sleep(BOUND);
            assert_eq!(connection.check(), Err(SYNC_FAILED));
            assert_eq!(commit(connection), Err(SYNC_FAILED));
            let reason = connection.failure().unwrap();
            assert!(reason.contains("x.db-wal"), "{reason}");
            assert!(reason.contains("Close all connections"), "{reason}");
        });
    }

    #[test]
    fn a_failed_sync_of_a_group_fails_the_commit() {
        with_connection(|_, disk, connection| {
            connection.set_groups(true);
            connection.write_lock(true);
            connection.committed();
            connection
                .sync_commit(|| panic!("the group syncs"))
                .unwrap();
            connection.write_lock(false);
            disk.fail_at(disk.ops(), Fault::Io);
            assert_eq!(connection.second_phase(), Err(SYNC_FAILED));
            assert_eq!(connection.check(), Err(SYNC_FAILED));
        });
    }

    /// Bounded commits cost one sync for all that come within half of the bound.
    #[test]
    fn commits_within_a_bound_share_syncs() {
        with_connection(|rt, disk, connection| {
            connection.set_force_within(20);
            let before = disk.counters().barriers;
            for _ in 0..30 {
                commit(connection).unwrap();
                rt.sleep(Duration::from_millis(1));
            }
            let syncs = disk.counters().barriers - before;
            assert!((2..=4).contains(&syncs), "{syncs}");
            rt.sleep(BOUND);
            let all = connection.log_syncs();
            rt.sleep(BOUND);
            assert_eq!(connection.log_syncs(), all);
        });
    }

    /// A connection that has not committed yet stops, too: its commits would lie behind those that are lost.
    #[test]
    fn a_failed_sync_stops_every_connection_of_the_process() {
        with_connection(|rt, disk, connection| {
            connection.set_force_within(20);
            let other = Connection::new(connection.path().to_owned(), connection.slot.clone());
            commit(connection).unwrap();
            assert_eq!(other.check(), Ok(()));
            disk.fail_at(disk.ops(), Fault::Io);
            rt.sleep(BOUND);
            assert_eq!(other.check(), Err(SYNC_FAILED));
            assert_eq!(other.check_commit(), Err(SYNC_FAILED));
        });
    }

    /// The log's descriptor ends with the last connection that syncs, and a further one would sync without an error.
    #[test]
    fn a_failed_sync_stops_connections_after_the_end_of_the_one_that_made_it() {
        with_connection(|_, disk, connection| {
            connection.set_force_within(20);
            let other = Connection::new(connection.path().to_owned(), connection.slot.clone());
            commit(connection).unwrap();
            disk.fail_at(disk.ops(), Fault::Io);
            connection.settle();
            assert!(connection.slot.log().upgrade().is_none());
            assert_eq!(other.check(), Err(SYNC_FAILED));
            assert_eq!(commit(&other), Err(SYNC_FAILED));
        });
    }

    #[cfg(planted)]
    #[test]
    fn planted_bugs_are_caught() {
        let test = "connection::tests::a_failed_sync_in_the_background_fails_every_later_statement";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("LOGFORCE_PLANTED", "sqlite-failed-sync-forgotten")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("test {test} ... FAILED")), "{text}");
    }
}
