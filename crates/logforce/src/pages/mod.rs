//! Page files: commit a set of dirty pages of a data file all or nothing.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let path = dir.path().join("accounts");
//! # use logforce::Guarantee;
//! use logforce::pages::Options;
//! # let options = Options::new().require(Guarantee::ProcessCrash);
//! let file = logforce::pages::open_or_create(&path, options)?;
//! file.transact(|transfer| {
//!     transfer.page_mut(3)?[..5].copy_from_slice(b"-2.50");
//!     transfer.page_mut(9)?[..5].copy_from_slice(b"+2.50");
//!     Ok(())
//! })?; // both pages are durable
//! let mut page = vec![0; file.page_size() as usize];
//! file.snapshot()?.read(9, &mut page)?;
//! assert_eq!(&page[..5], b"+2.50");
//! file.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A page file has one of two commit modes, which is fixed when the file is created ([`Options::mode`]):
//!
//! - *logged* (the default): a commit is one sequential write to a log. The pages are written to the data
//!   file later.
//! - *copy-on-write*: a commit writes pages to new locations, and nothing twice.
//!
//! | | logged | copy-on-write |
//! |---|---|---|
//! | choose it for | many small commits, many threads, pages that change again and again | large commits, bulk loads, no log beside the file, ext4 without a journal |
//! | a commit | one sequential write to the log, shared by threads that commit together | pages and some table pages to new locations, a sync, the header |
//! | total writes | most pages twice, unless they change often | each page once, and the table |
//! | the largest commit | 64 MiB | limited by memory |
//! | opening | reads the log since the last checkpoint, at most twice the [`Options::checkpoint_distance`] | reads the table of pages |
//!
//! Guarantees and policies are those of [the log](crate). As with the log, a failed write stops the file.

use crate::Lsn;
use logforce_device::System;
use std::path::Path;
use std::sync::Arc;

pub mod base;
pub mod inspect;
mod options;

pub use logforce_pages::{
    Acknowledged, CommitHandle, CommitMode, Error, ErrorKind, Page, PageFile, Result, Snapshot,
    Stats, Transaction, WriteThroughLimit,
};
pub use options::Options;

/// Returns the LSN up to which the data file of a page file contains the log in `path`. Returns `None` if the
/// log does not belong to a page file.
pub(crate) fn applied(path: &Path) -> crate::Result<Option<Lsn>> {
    // Checks the path as given and with its links resolved: `log` may be a link to another disk, or be
    // reached through a link.
    let named = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for log in [named, logforce_device_os::OsSystem::new().resolved(path)] {
        let Some(file) = log.parent().filter(|_| log.ends_with("log")) else {
            continue;
        };
        let summary = match inspect::open(file).and_then(|file| file.summary()) {
            Err(Error::NoPageFile { .. } | Error::NotAPageFile { .. }) => continue,
            Err(Error::Log(e)) => return Err(e),
            Err(e) => {
                return Err(crate::Error::Io {
                    doing: "read the page file of the log",
                    path: path.to_owned(),
                    source: Arc::new(std::io::Error::other(e)),
                });
            }
            Ok(summary) => summary,
        };
        if let inspect::PageFileKind::Logged(state) = summary.header.kind {
            return Ok(Some(state.redo_from));
        }
    }
    Ok(None)
}

/// Opens the page file in the directory `path`; creates one if the directory is missing or empty.
/// Shortcut for [`Options::create`] and [`Options::open`].
pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<PageFile> {
    options.create_new(false).create(true).open(path)
}

/// Opens the existing page file in the directory `path`. Shortcut for [`Options::open`].
pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<PageFile> {
    options.create_new(false).create(false).open(path)
}

/// Creates a page file in the directory `path`, and the directory if it is missing; its parent must exist.
/// Fails if there is a page file already. Shortcut for [`Options::create_new`] and [`Options::open`].
pub fn create_new(path: impl AsRef<Path>, options: Options) -> Result<PageFile> {
    options.create_new(true).open(path)
}

/// Opens a snapshot of the page file in the directory `path`, which no program may have open. Useful on a
/// filesystem that is mounted read-only, or that this user may not write to. The snapshot contains the state
/// with which the next opening would begin, including the commits that are still in the log. It can be backed
/// up like any other snapshot.
///
/// Locks, changes and forces nothing, so no program may write the file meanwhile. If one does, later reads
/// are refused.
///
/// # Errors
/// [`ErrorKind::Locked`] if a program has the file open, and from each later read once a program has opened
/// it;
/// [`ErrorKind::NoPageFile`]; [`ErrorKind::Damaged`].
pub fn read_only(path: impl AsRef<Path>) -> Result<Snapshot> {
    let system: Arc<dyn System> = Arc::new(logforce_device_os::OsSystem::new());
    Snapshot::read_only(&system, path)
}
