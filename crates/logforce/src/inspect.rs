//! Inspection of a log without opening it: segments, batches, damage; salvage and repair.
//!
//! The commands `logforce stat`, `dump`, `verify`, `salvage` and `repair` use this module.

pub use logforce_core::{
    BatchInfo, BatchKind, Cut, Damage, Epoch, Inspector, LogSummary, RecoveryCase, RecoveryReport,
    RepairOptions, RepairReport, SegmentInfo, VerifyReport, Visit,
};

use crate::{Result, pages};
use logforce_device_os::OsSystem;
use std::path::Path;

/// Opens the log in `path` for inspection, segment by segment. Locks, changes and forces nothing.
pub fn open(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::open(&OsSystem::new(), path)
}

/// Opens the log like [`open`], or from its segments alone if the control file is missing or damaged.
pub fn salvage(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::salvage(&OsSystem::new(), path)
}

/// Repairs a log that an opening refuses: ends the log before the damage, after copying everything that it
/// removes. [`salvage`] reads the copies. A log that can be opened is not changed. If the repair fails, or
/// the machine crashes meanwhile, call it again. A repair gives up acknowledged records: the guide says when
/// a service may do that without an administrator.
///
/// The log of a logged page file is in its directory `log`. The repair does not end it below the LSN from
/// which the data file needs the log. If a checkpoint was under way at a crash, it may have written pages of
/// removed commits; a repair cannot detect that.
///
/// # Errors
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) if a repair is impossible: the control file is damaged,
/// two segments claim the same part of the log, or the data file of a page file needs records that it would
/// remove. [`ErrorKind::NoLog`](crate::ErrorKind::NoLog) or [`ErrorKind::NotALog`](crate::ErrorKind::NotALog)
/// without a control file. [`ErrorKind::Locked`](crate::ErrorKind::Locked) while the log is open.
/// [`ErrorKind::Io`](crate::ErrorKind::Io), for example if there is no space for the copies
/// ([`RepairOptions::aside`]) or for a segment in the log's filesystem.
pub fn repair(path: impl AsRef<Path>, options: &RepairOptions) -> Result<RepairReport> {
    let path = path.as_ref();
    let mut options = options.clone();
    if let Some(applied) = pages::applied(path)? {
        options = options.not_below(applied);
    }
    logforce_core::repair(&OsSystem::new(), path, &options)
}
