//! Syncs of a write-ahead log that the connections of a process share.

use crate::identity::Identity;
use crate::stock::{CANNOT_OPEN, Code, SYNC_FAILED};
use logforce::file::File;
use logforce::{Guarantee, Verdict};
use logforce_device::planted;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A write-ahead log that can be made durable. Connections write to it through the VFS below. This descriptor
/// only syncs. SQLite never locks the log, so closing it releases no POSIX lock of the process.
pub struct Forced {
    file: File,
    /// Identity of the file; `None` in tests, whose files are not on this machine.
    identity: Option<Identity>,
}

impl Forced {
    /// Makes the log of a file that is open.
    #[cfg(test)]
    pub fn new(file: File) -> Forced {
        Forced {
            file,
            identity: None,
        }
    }

    /// Opens the log of a database, unless `known` is that. `None` if it cannot be opened: syncs are left to the
    /// VFS below then.
    pub fn of(database: &Path, known: Option<Arc<Forced>>) -> Option<Arc<Forced>> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let path = PathBuf::from(path);
        let identity = Some(Identity::of(&path)?);
        if let Some(known) = known.filter(|known| known.identity == identity) {
            return Some(known);
        }
        if planted!("sqlite-second-descriptor") {
            drop(std::fs::File::open(database));
        }
        // SQLite works everywhere, so nothing is required; `logforce_durability` tells what a commit survives.
        let options = File::options()
            .calibrate(false)
            .require(Guarantee::Nothing)
            .require_verdict(Verdict::Contradicted);
        let opened = options.open(&path);
        let opened =
            opened.inspect_err(|e| crate::ffi::log(CANNOT_OPEN, &format!("logforce: {e}")));
        let file = opened.ok()?;
        Some(Arc::new(Forced { file, identity }))
    }

    /// Returns true if the filesystem overwrites in place.
    pub fn overwrites_in_place(&self) -> bool {
        self.file.overwrites_in_place()
    }

    /// Returns the number of syncs, by all connections of the process.
    pub fn syncs(&self) -> u64 {
        self.file.stats().counters.syncs
    }

    /// Makes everything durable that was written to the log before. Connections that commit at the same time
    /// share one sync.
    pub fn commit(&self) -> Result<(), Code> {
        self.file.count_write();
        self.file.commit().map(drop).map_err(|_| SYNC_FAILED)
    }

    /// Leaves that to the background, within a bound.
    pub fn commit_within(&self, bound: Duration) -> Result<(), Code> {
        self.file.count_write();
        self.file.commit_within(bound).map_err(|_| SYNC_FAILED)
    }

    /// Returns the reason if a sync has failed.
    pub fn failure(&self) -> Option<String> {
        let failure = self.file.failure()?;
        Some(format!(
            "logforce: {failure}. Commits since the last sync may be lost. Close all connections to the \
             database, repair the disk, and check what is in the database"
        ))
    }
}
