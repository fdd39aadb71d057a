//! Durable files: the commit of the log for programs that have a file format.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let path = dir.path().join("journal");
//! # use logforce::Guarantee;
//! use logforce::file::File;
//! # let options = File::options().require(Guarantee::ProcessCrash);
//! # /*
//! let options = File::options();
//! # */
//! let file = options.create(true).lock(true).open(&path)?;
//! file.write_at(b"-2.50", 0)?;
//! file.write_at(b"+2.50", 4096)?;
//! file.commit()?; // both are durable; threads that commit at the same time share one sync
//! file.write_commit(b"paid!", 8192)?; // one durable write
//! # Ok(())
//! # }
//! ```
//!
//! An opening finds out what the filesystem and the device guarantee, chooses the method as a log does, and
//! fails where writes cannot be durable. After a failed write or sync the file acknowledges nothing more.
//!
//! | call | returns when | it covers |
//! |---|---|---|
//! | [`write_at`](logforce_commit::file::File::write_at), [`writev_at`](logforce_commit::file::File::writev_at) | the bytes are written: they survive a crash of the process | |
//! | [`commit`](logforce_commit::file::File::commit) | it is durable | every write that had completed before, in any thread |
//! | [`write_commit`](logforce_commit::file::File::write_commit) | it is durable | its own bytes |
//! | [`submit`](logforce_commit::file::File::submit), then [`CommitHandle::wait`] or `.await` | it is durable | its own bytes, and every write that had completed before |
//! | [`commit_async`](logforce_commit::file::File::commit_async) | it is durable | every write that had completed before its first poll |
//! | [`prepare`](logforce_commit::file::File::prepare) | size and blocks are durable | later commits into the range need not allocate blocks |
//! | [`sync_parent`], [`create_durably`], [`rename_durably`], [`replace_durably`] | names and contents are durable | see each function |
//!
//! Not a file system: nothing is atomic. A power cut keeps any of the writes that no commit has acknowledged,
//! in whole or in part. The guide `docs/guide/own-format.md` says what to call where. If you have no format
//! yet, take the [log](crate) or a [page file](crate::pages).

mod options;

pub use logforce_commit::file::{
    Acknowledged, CommitHandle, Counters, Error, ErrorKind, Prepare, Prepared, Result, Stats,
};
pub use options::Options;

use logforce_device_os::OsSystem;
use std::ops::Deref;
use std::path::Path;

/// An open durable file. [`File::options`] opens one; all other methods are those of
/// [`logforce_commit::file::File`].
#[derive(Debug)]
pub struct File(logforce_commit::file::File);

impl File {
    /// Returns options for opening a file.
    pub fn options() -> Options {
        Options::new()
    }
}

impl File {
    /// Commits everything that was written, ends the file's thread, and releases the lock unless a handle is
    /// left.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`] if a write or a sync has failed, now or earlier. The file is closed in any
    /// case.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }

    pub(crate) fn new(file: logforce_commit::file::File) -> File {
        File(file)
    }
}

impl Deref for File {
    type Target = logforce_commit::file::File;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Makes durable which names are in the directory of the file `path`: creations, renames and removals that
/// were done before this call. Without it a power cut may take them back, although the files were synced.
///
/// # Errors
/// [`ErrorKind::Io`], [`ErrorKind::NotFound`]. The names may or may not survive a power cut then.
pub fn sync_parent(path: impl AsRef<Path>) -> Result<()> {
    logforce_commit::file::sync_parent(&OsSystem::new(), path.as_ref())
}

/// Creates the file `path` with these contents. Contents, name and the entry of its directory are durable on
/// return. A power cut before
/// that may leave no file, or one that is empty or in parts: use [`replace_durably`] where that matters.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], [`ErrorKind::NotFound`] if the directory is missing,
/// [`ErrorKind::NoSpace`], [`ErrorKind::Io`]. The file is removed again, if that is possible.
pub fn create_durably(path: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
    logforce_commit::file::create_durably(&OsSystem::new(), path.as_ref(), contents)
}

/// Renames a file within its directory, and replaces an existing target. The contents are durable before the
/// new name is, and the name is durable on return. A power cut before that leaves the old names or the new
/// one, and a target is complete in both cases.
///
/// The contents are synced by another descriptor than the one that wrote them, which learns of an error only
/// if the writer has not learned of it before: check the writer's own errors.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the paths are in different directories. [`ErrorKind::NotFound`],
/// [`ErrorKind::Io`]: if only the sync of the directory failed, the new name is in place.
pub fn rename_durably(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    logforce_commit::file::rename_durably(&OsSystem::new(), from.as_ref(), to.as_ref())
}

/// Replaces the contents of the file `path`, or creates it, by way of the file `<path>.new`. A power cut
/// leaves the complete old contents or the complete new ones; the new ones are durable on return. Calls for
/// one path must not overlap. The file gets the permissions of a new file. A symbolic link is replaced, not
/// the file to which it leads.
///
/// # Errors
/// [`ErrorKind::NotFound`] if the directory is missing, [`ErrorKind::NoSpace`], [`ErrorKind::Io`]. The old
/// contents are in place then, unless only the sync of the directory failed.
pub fn replace_durably(path: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
    logforce_commit::file::replace_durably(&OsSystem::new(), path.as_ref(), contents)
}
