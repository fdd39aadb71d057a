//! Looking into a log that is not opened: its segments, batches and damage; salvage and repair.
//!
//! The command `logforce` is made of this: `stat`, `dump`, `verify`, `salvage`, `repair`.

pub use logforce_core::{
    BatchInfo, BatchKind, Cut, Damage, Epoch, Inspector, LogSummary, RecoveryCase, RecoveryReport,
    RepairOptions, RepairReport, SegmentInfo, VerifyReport, Visit,
};

use crate::{Result, pages};
use logforce_device_os::OsSystem;
use std::path::Path;

/// Opens the log in `path` for inspection, segment by segment: nothing is locked, changed or forced.
pub fn open(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::open(&OsSystem::new(), path)
}

/// Like [`open`], and where the control file is missing or damaged, from the segments alone.
pub fn salvage(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::salvage(&OsSystem::new(), path)
}

/// Repairs a log that an opening refuses: ends it before the damage, after copying all that it removes.
/// [`salvage`] reads the copies. It changes nothing in a log that opens. If it fails, or the machine does
/// meanwhile, call it again. It gives up acknowledged records: the guide says when a service may do that by
/// itself.
///
/// A logged page file's log is in its directory `log`. It is not ended below the LSN from which the data file
/// needs the log. A checkpoint that was under way at a crash may have written pages of removed commits: no repair
/// can see that.
///
/// # Errors
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) where it cannot help: the control file is damaged, two
/// segments claim the same part of the log, or the data file of a page file needs what would be removed.
/// [`ErrorKind::NoLog`](crate::ErrorKind::NoLog) or [`ErrorKind::NotALog`](crate::ErrorKind::NotALog) without a
/// control file. [`ErrorKind::Locked`](crate::ErrorKind::Locked) while the log is open.
/// [`ErrorKind::Io`](crate::ErrorKind::Io), among others without space for the copies
/// ([`RepairOptions::aside`]) or for a segment in the log's own filesystem.
pub fn repair(path: impl AsRef<Path>, options: &RepairOptions) -> Result<RepairReport> {
    let path = path.as_ref();
    let mut options = options.clone();
    if let Some(applied) = pages::applied(path)? {
        options = options.not_below(applied);
    }
    logforce_core::repair(&OsSystem::new(), path, &options)
}
