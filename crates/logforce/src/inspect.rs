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

/// Repairs a log that an opening refuses: ends it before the damage, after copying aside all that it cuts.
/// [`salvage`] reads the copies. It changes nothing in a log that opens. A service that must come up by itself
/// calls it when an opening fails with [`ErrorKind::Damaged`](crate::ErrorKind::Damaged), and opens again.
///
/// If it fails, or the machine does meanwhile, call it again.
///
/// # Errors
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) where it cannot help: the control file is unusable, or two segments claim the same part
/// of the log. [`ErrorKind::Locked`](crate::ErrorKind::Locked) while the log is open. [`ErrorKind::Io`](crate::ErrorKind::Io), among others for a place without
/// space for the copies: see [`RepairOptions::aside`].
///
/// A logged page file's log is in its directory `log`. It is repaired only if nothing is cut that the last whole
/// checkpoint has taken from it. A checkpoint that was under way at a crash may have written pages of commits
/// that are cut: no repair can see that.
pub fn repair(path: impl AsRef<Path>, options: &RepairOptions) -> Result<RepairReport> {
    let path = path.as_ref();
    let mut options = options.clone();
    if let Some(applied) = pages::applied(path)? {
        options = options.not_below(applied);
    }
    logforce_core::repair(&OsSystem::new(), path, &options)
}
