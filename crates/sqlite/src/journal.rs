//! Rollback journals that are kept: the end of a transaction zeroes the journal's header, as
//! `journal_mode=PERSIST` does, instead of deleting or cutting the file.
//!
//! A new file costs syncs of its directory, its size and its blocks with each transaction. A kept one is
//! overwritten. SQLite without this VFS ignores a journal whose header is zero.

use crate::by_process::ByProcess;
use crate::forced::Forced;
use crate::gather::Gather;
use crate::identity::Identity;
use crate::stats::Stats;
use crate::stock::{Code, StockFile};
use logforce_device::planted;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Header that is zeroed at the end of a transaction, bytes.
const HEADER: [u8; 28] = [0; 28];
/// Last bytes of a journal that names a super-journal, and first bytes of every journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Largest journal that is kept, bytes.
const LONGEST_KEPT: u64 = 4 << 20;

/// A journal of the VFS below.
pub type Boxed = Box<dyn StockFile + Send>;

/// The journals of this process, by their paths.
static SLOTS: ByProcess<Slot> = ByProcess::new();

/// Files beside a database that all connections of the process to it share: the rollback journal, and the
/// write-ahead log. SQLite lets one of them at a time write.
pub struct Slot {
    path: PathBuf,
    journal: Mutex<Option<Kept>>,
    /// Number of connections of this process to the database.
    connections: AtomicUsize,
    /// True if a part of the journal is only in memory.
    is_pending: AtomicBool,
    /// The write-ahead log, if one of the connections syncs it.
    log: Mutex<Weak<Forced>>,
    /// Reason why a sync of the log has failed, by a connection that is closed.
    pub failure: OnceLock<String>,
}

/// A journal that is open, or is kept open for the next transaction.
struct Kept {
    file: Boxed,
    identity: Identity,
    gather: Gather,
    /// Counts of the connection whose transaction it is. They also identify that connection.
    stats: Arc<Stats>,
    /// Flags with which SQLite has asked for a sync in this transaction; `None` with `synchronous=OFF`.
    syncs: Option<c_int>,
    /// True if the file is durable as it is.
    is_durable: bool,
    /// True if SQLite has read the header: it undoes the transaction.
    is_undoing: bool,
    /// Change at the end of the last transaction that was not carried out.
    left: Left,
}

/// File that SQLite expects after its last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The one that is there.
    Kept,
    /// None.
    Deleted,
    /// An empty one.
    Empty,
}

/// End of a transaction.
pub enum Ended {
    /// By the header: the file stays.
    ByHeader,
    /// Not yet: the file must be deleted.
    Not {
        /// True if the transaction was synced: the deletion must be, too.
        is_synced: bool,
    },
}

impl Slot {
    pub fn new(path: PathBuf) -> Slot {
        Slot {
            path,
            journal: Mutex::new(None),
            connections: AtomicUsize::new(0),
            is_pending: AtomicBool::new(false),
            log: Mutex::default(),
            failure: OnceLock::new(),
        }
    }

    /// Returns the journal of the database `path`, for a further connection.
    pub fn of(path: &Path) -> Arc<Slot> {
        let mut name = path.as_os_str().to_owned();
        name.push("-journal");
        let path = PathBuf::from(name);
        let slot = SLOTS.get_or_make(&path, || Slot::new(path.clone()));
        slot.connections.fetch_add(1, SeqCst);
        slot
    }

    /// Returns the journal at `path`, if a database that it belongs to is open.
    pub fn at(path: &Path) -> Option<Arc<Slot>> {
        SLOTS.get(path)
    }

    pub fn log(&self) -> MutexGuard<'_, Weak<Forced>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Option<Kept>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the file is kept that the path leads to. Another process may have deleted it.
    fn is_current(&self, kept: &Kept) -> bool {
        planted!("sqlite-journal-identity-unchecked")
            || Identity::of(&self.path) == Some(kept.identity)
    }

    /// Begins a transaction. Opens the journal by `open` unless it is kept. Returns false if `open` has no file
    /// that can be kept.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn open(
        &self,
        stats: &Arc<Stats>,
        open: impl FnOnce() -> Result<Option<Boxed>, Code>,
    ) -> Result<bool, Code> {
        let mut journal = self.journal();
        if journal.as_ref().is_none_or(|kept| !self.is_current(kept)) {
            *journal = None;
            let Some(file) = open()? else {
                return Ok(false);
            };
            let identity = Identity::of(&self.path).ok_or(Code(10))?;
            *journal = Some(Kept {
                file,
                identity,
                gather: Gather::default(),
                stats: stats.clone(),
                syncs: None,
                is_durable: false,
                is_undoing: false,
                left: Left::Kept,
            });
        }
        if let Some(kept) = &mut *journal {
            kept.stats = stats.clone();
            kept.syncs = None;
            kept.is_durable = false;
            kept.is_undoing = false;
            kept.left = Left::Kept;
            // Left by a transaction that could not be written. Its records protect no page of the database:
            // they are written before the page is. Written now, they would replace another process's journal.
            kept.gather.discard();
            self.is_pending.store(false, SeqCst);
        }
        Ok(true)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> Result<T, Code>) -> Result<T, Code> {
        let mut journal = self.journal();
        let kept = journal.as_mut().ok_or(Code(10))?;
        let done = act(kept);
        self.is_pending.store(!kept.gather.is_empty(), SeqCst);
        done
    }

    pub fn read(&self, buf: &mut [u8], at: u64) -> Result<(), Code> {
        self.with(|kept| {
            kept.is_undoing |= at < HEADER.len() as u64;
            kept.gather.read(&mut *kept.file, buf, at)
        })
    }

    pub fn write(&self, bytes: &[u8], at: u64, stats: &Arc<Stats>) -> Result<(), Code> {
        self.with(|kept| kept.write(bytes, at, stats))
    }

    pub fn size(&self) -> Result<u64, Code> {
        self.with(|kept| kept.gather.size(&mut *kept.file))
    }

    pub fn sync(&self, flags: c_int) -> Result<(), Code> {
        self.with(|kept| {
            kept.syncs = Some(flags);
            kept.gather.flush(&mut *kept.file)?;
            kept.sync(flags)
        })
    }

    /// Writes what is only in memory. The database file must not change before: a crash of the process would
    /// find no journal to undo that.
    pub fn flush(&self) -> Result<(), Code> {
        if !self.is_pending.load(SeqCst) || planted!("sqlite-database-before-journal") {
            return Ok(());
        }
        self.with(|kept| match kept.gather.flush(&mut *kept.file) {
            // On a full disk SQLite could not undo the transaction otherwise. The records in memory protect no
            // page of the database: they are written before the page is.
            Err(_) if kept.is_undoing => Ok(()),
            flushed => flushed,
        })
    }

    /// Sets the length of the journal. An empty journal ends the transaction.
    pub fn truncate(&self, len: u64) -> Result<(), Code> {
        self.with(|kept| match len == 0 && kept.may_stay() {
            true => kept.end(Left::Empty),
            false => {
                kept.gather.flush(&mut *kept.file)?;
                kept.is_durable = false;
                kept.file.truncate(len)
            }
        })
    }

    /// Ends the use of the journal by a connection. Keeps the file. What could not be written is dropped: it
    /// protects no page of the database, and on a full disk it would keep readers out. In TRUNCATE and PERSIST a
    /// connection that reads has the journal open as well. Its end must drop no record of another connection.
    pub fn close(&self, stats: &Arc<Stats>) -> Result<(), Code> {
        self.with(|kept| {
            if !Arc::ptr_eq(&kept.stats, stats) {
                return Ok(());
            }
            let flushed = kept.gather.flush(&mut *kept.file);
            kept.gather.discard();
            flushed
        })
    }

    /// Ends a transaction in place of deleting the journal.
    pub fn end_by_header(&self) -> Result<Ended, Code> {
        let mut journal = self.journal();
        let Some(kept) = &mut *journal else {
            // A VFS above has opened the journal by another name. `synchronous` is not known here.
            return Ok(Ended::Not { is_synced: true });
        };
        self.is_pending.store(false, SeqCst);
        if !self.is_current(kept) || !kept.may_stay() {
            let is_synced = kept.syncs.is_some();
            *journal = None;
            return Ok(Ended::Not { is_synced });
        }
        kept.end(Left::Deleted)?;
        Ok(Ended::ByHeader)
    }

    /// Returns true if the journal is kept and its header is zero, so that no other process has a transaction
    /// to undo. SQLite then need not look into it.
    pub fn is_ended(&self) -> bool {
        let mut journal = self.journal();
        let Some(kept) = &mut *journal else {
            return false;
        };
        let mut first = [1];
        kept.left != Left::Kept
            && self.is_current(kept)
            && kept.file.read(&mut first, 0).is_ok()
            && first == [0]
    }

    /// Notes the end of a connection. Returns true if it was the last one, and a file is left that SQLite would
    /// have deleted or emptied.
    pub fn leave(&self) -> bool {
        let was_last = self.connections.fetch_sub(1, SeqCst) == 1;
        was_last
            && self
                .journal()
                .as_ref()
                .is_some_and(|kept| kept.left != Left::Kept)
    }

    /// Leaves the file as SQLite would have. The caller holds the database's reserved lock, so that no other
    /// process uses the journal.
    pub fn clear(&self) {
        let mut journal = self.journal();
        let Some(mut kept) = journal.take() else {
            return;
        };
        let mut first = [1];
        let is_ended = kept.file.read(&mut first, 0).is_ok() && first == [0];
        if is_ended && self.is_current(&kept) {
            match kept.left {
                Left::Deleted => drop(std::fs::remove_file(&self.path)),
                Left::Empty => drop(kept.file.truncate(0)),
                Left::Kept => {}
            }
        }
    }
}

impl Kept {
    fn write(&mut self, bytes: &[u8], at: u64, stats: &Arc<Stats>) -> Result<(), Code> {
        self.stats = stats.clone();
        self.stats.wrote(bytes.len());
        self.is_durable = false;
        self.is_undoing = false;
        self.gather.push(&mut *self.file, bytes, at)?;
        // The end of a transaction: a crash of the process must not undo it, even without syncs.
        let is_end = at == 0 && bytes.starts_with(&HEADER);
        // The name of a super-journal is complete. A rollback of another file of the transaction looks for it in
        // this file by the file's name.
        let names_super_journal = at > 0 && bytes == MAGIC;
        match is_end || names_super_journal {
            true => self.gather.flush(&mut *self.file),
            false => Ok(()),
        }
    }

    /// Makes the file durable. SQLite also asks for it when [`Kept::end`] has done so.
    fn sync(&mut self, flags: c_int) -> Result<(), Code> {
        if !self.is_durable {
            self.stats.synced();
            self.file.sync(flags)?;
            self.is_durable = true;
        }
        Ok(())
    }

    /// Ends a transaction by zeroing the header, durably if the transaction was. Otherwise the next transaction
    /// could overwrite records below a header that is still valid on the medium, and a power cut then undo a part
    /// of this transaction.
    fn end(&mut self, left: Left) -> Result<(), Code> {
        self.gather.discard();
        self.is_durable = false;
        self.file.write(&HEADER, 0)?;
        self.left = left;
        match self
            .syncs
            .filter(|_| !planted!("sqlite-header-zeroed-unsynced"))
        {
            Some(flags) => self.sync(flags),
            None => Ok(()),
        }
    }

    /// Returns true if the file may be used again. Not if it names a super-journal: SQLite looks for that name
    /// at the end of the file, and would take a later journal for a part of that transaction. An error counts as
    /// no: SQLite's own way to end a transaction does not read.
    fn may_stay(&mut self) -> bool {
        let Ok(size) = self.gather.size(&mut *self.file) else {
            return false;
        };
        let mut last = [0; MAGIC.len()];
        let read = size.checked_sub(last.len() as u64).map_or(Ok(()), |at| {
            self.gather.read(&mut *self.file, &mut last, at)
        });
        let names_none = last != MAGIC || planted!("sqlite-super-journal-kept");
        size <= LONGEST_KEPT && read.is_ok() && names_none
    }
}
