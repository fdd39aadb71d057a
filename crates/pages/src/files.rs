//! Files of a page file: their names, opening and locking.

use crate::error::{Error, Result};
use logforce_core::{Granted, Guarantee, Modes, OpenMode, Source, Verdict};
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{
    Assessment, Barrier, DirectAlignment, Directory, Displacement, Facts, File, FileState, ForceBy,
    NamedFiles, OpenFile, Plan, Runtime, System,
};
use logforce_format::planted;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// Data file: header slots and pages.
pub(crate) const DATA: &str = "pages";
/// Data file before it is complete.
pub(crate) const DATA_NEW: &str = "pages.tmp";
/// Data file of a backup before it is complete.
pub(crate) const BACKUP_NEW: &str = "backup.tmp";
/// Map of a logged file: which pages were ever written, and their checksums.
pub(crate) const MAP: &str = "map";
/// Older versions of pages that readers still need. Nothing in it is used after the page file is closed.
pub(crate) const VERSIONS: &str = "versions";
/// Directory of the log of a logged file.
pub(crate) const LOG: &str = "log";
/// Lock file, which the only opener holds.
pub(crate) const LOCK: &str = "lock";

/// Open and locked directory of a page file.
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) facts: Facts,
    /// Files whose names are checked while the page file is open: those that the caller adds, and the lock
    /// file. Without the lock file, another process could write to the page file.
    pub(crate) named: NamedFiles,
    /// Process that opened the page file. Calls of a fork are refused.
    process: u64,
    /// Held locks. Empty once the page file is closed, which views may outlive. The lock file's lock is
    /// released last.
    locks: Mutex<Vec<Box<dyn Send + Sync>>>,
}

impl DataDir {
    /// Opens the directory, creates it if `mode` allows that, and takes its lock.
    pub(crate) fn open(
        system: &dyn System,
        path: &Path,
        mode: OpenMode,
        modes: Modes,
    ) -> Result<DataDir> {
        let is_missing = |e: std::io::Error| e.kind() == ErrorKind::NotFound;
        let creates =
            mode != OpenMode::OpenExisting && system.directory(path).err().is_some_and(is_missing);
        let dir = match mode {
            OpenMode::OpenExisting => system.directory(path).map_err(|e| match e.kind() {
                ErrorKind::NotFound => Error::NoPageFile {
                    path: path.to_owned(),
                    why: "there is no such directory".to_owned(),
                },
                _ => Error::io("open", path)(e),
            })?,
            _ => system
                .make_directory(path)
                .map_err(Error::io("make", path))?,
        };
        (modes.set_in(&*dir, creates)).map_err(Error::io("change the mode of", path))?;
        let lock = dir.lock(LOCK).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => Error::Locked {
                path: path.to_owned(),
            },
            _ => Error::io("lock", path.join(LOCK))(e),
        })?;
        let mut named = NamedFiles::new(dir.clone());
        named.add(LOCK);
        let facts = dir.facts_for_writing();
        let facts = facts.map_err(Error::io("look at", path))?;
        let runtime = system.runtime();
        let data_dir = DataDir {
            path: path.to_owned(),
            process: runtime.process(),
            dir,
            runtime,
            facts,
            named,
            locks: Mutex::new(vec![lock]),
        };
        data_dir.lock_data()?;
        Ok(data_dir)
    }

    fn locks(&self) -> MutexGuard<'_, Vec<Box<dyn Send + Sync>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the data file, if there is one. Otherwise a second process could open the page file once the
    /// lock file is deleted. It could destroy commits that the first process acknowledges until it notices.
    pub(crate) fn lock_data(&self) -> Result<()> {
        if planted!("data-file-unlocked") {
            return Ok(());
        }
        match self.dir.lock_file(DATA) {
            Ok(lock) => self.locks().push(lock),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                return Err(Error::Locked {
                    path: self.path.clone(),
                });
            }
            Err(e) => return Err(Error::io("lock", self.path_of(DATA))(e)),
        }
        Ok(())
    }

    /// Returns true if writing through to a file in this state gives the guarantee, without a barrier. On Windows
    /// it does not, where the device has a cache and no FUA.
    pub(crate) fn is_write_through_enough(&self, guarantee: Granted, state: FileState) -> bool {
        let plan = Plan {
            direct: false,
            force: ForceBy::Through,
        };
        let assessed = self.facts.assess_plan(plan, state);
        assessed.is_some_and(|a| a.granted() >= guarantee)
    }

    /// Releases the locks, so that another opener can take them. No write may be in flight, and no read of
    /// places that a new opener may overwrite.
    pub(crate) fn release(&self) {
        let taken = std::mem::take(&mut *self.locks());
        // Unlocks without holding the mutex, because unlocking is a system call. Releases the data file's
        // lock before the lock file's, because a process that gets the latter must also get the former.
        taken.into_iter().rev().for_each(drop);
    }

    /// Returns true if there is a data file. Does not rely on a listing: an incomplete one would make an
    /// opening replace the old file by a new one.
    pub(crate) fn has_data(&self) -> Result<bool> {
        self.has_file(DATA)
    }

    /// Returns true if there is a file with this name.
    pub(crate) fn has_file(&self, name: &str) -> Result<bool> {
        if planted!("page-listing-believed") {
            let entries = self.dir.entries();
            let entries = entries.map_err(Error::io("list", &self.path))?;
            return Ok(entries.iter().any(|e| e.name == name));
        }
        match self.dir.open(name, OpenFile::READ) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("open", self.path_of(name))(e)),
        }
    }

    /// Refuses a directory that holds an unfinished backup.
    pub(crate) fn check_no_backup(&self) -> Result<()> {
        if self.has_file(BACKUP_NEW)? && !planted!("unfinished-backup-taken") {
            return Err(Error::NoPageFile {
                path: self.path.clone(),
                why: "it holds an unfinished backup: remove the directory".to_owned(),
            });
        }
        Ok(())
    }

    /// Returns true if there is a log.
    pub(crate) fn has_log(&self, system: &dyn System) -> Result<bool> {
        match system.directory(&self.path_of(LOG)) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("open", self.path_of(LOG))(e)),
        }
    }

    /// Makes the files' names durable.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let synced = self.dir.sync();
        synced.map_err(Error::io("sync directory", &self.path))
    }

    /// Returns the path of one of the files, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens the data file to write pages of this size. Writes bypass the system's cache if `wants_direct` is
    /// true and the file permits that. Returns true if they do.
    pub(crate) fn open_for_pages(
        &self,
        page_size: u32,
        wants_direct: bool,
    ) -> Result<(Arc<dyn File>, bool)> {
        let fits = |needed: DirectAlignment| page_size.is_multiple_of(needed.offset);
        if wants_direct && self.facts.direct.is_some_and(fits) {
            match self.open_file(DATA, true) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::Unsupported => {}
                // A file that shares blocks with a copy may need writes of whole blocks, where a new file
                // does not. Writes of smaller pages would be refused.
                Ok(file) if !file.direct_alignment().is_none_or(fits) => {}
                file => return Ok((file?, true)),
            }
        }
        Ok((self.open_file(DATA, false)?, false))
    }

    /// Returns the memory alignment that writes need, in bytes.
    pub(crate) fn alignment(&self) -> usize {
        self.facts.direct.map_or(512, |d| d.memory.max(512)) as usize
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open_file(&self, name: &str, direct: bool) -> Result<Arc<dyn File>> {
        let how = OpenFile {
            direct,
            ..OpenFile::WRITE
        };
        let file = self.dir.open(name, how);
        file.map_err(Error::io("open", self.path_of(name)))
    }

    /// Returns the guarantee of a barrier on the data file. Returns an error if it is below the required one.
    pub(crate) fn guarantee(&self, require: Guarantee, verdict: Verdict) -> Result<Granted> {
        let plan = Plan {
            direct: false,
            force: ForceBy::Barrier(Barrier::Data),
        };
        let assessed = self.facts.assess_plan(plan, FileState::Growing);
        let assessed = assessed.unwrap_or_else(|| {
            let why = "nothing is known about this directory";
            Assessment::new(Guarantee::Nothing, Verdict::Unknown, Source::Nobody, why)
        });
        if assessed.guarantee < require {
            return Err(Error::Guarantee {
                path: self.path.clone(),
                wanted: require,
                got: assessed.guarantee,
                evidence: assessed.evidence,
            });
        }
        if !assessed.meets(require, verdict) {
            return Err(Error::Verdict {
                path: self.path.clone(),
                got: assessed.guarantee,
                verdict: assessed.verdict,
                wanted: verdict,
                evidence: assessed.evidence,
            });
        }
        Ok(assessed.granted())
    }

    /// Returns the error if the directory or one of the files was displaced.
    pub(crate) fn displaced(&self) -> Option<Error> {
        let Displacement { path, found } = self.named.displacement()?;
        Some(Error::Displaced { path, found })
    }

    /// Refuses a call from a fork of the process that opened the page file.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.runtime.process() == self.process {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }
}
