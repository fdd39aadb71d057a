//! A write-ahead log to embed: append records, commit them durably, read them back after any crash.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let path = dir.path().join("sales.log");
//! # use logforce::Guarantee;
//! # let options = logforce::Options::new().require(Guarantee::ProcessCrash);
//! let log = logforce::open_or_create(&path, options)?;
//! let sale = log.commit(b"one coffee, 2.50")?; // durable when this returns
//! assert_eq!(log.read_at(sale.start)?.data, b"one coffee, 2.50");
//! for record in log.read_from(log.front_lsn())? {
//!     println!("{}", String::from_utf8_lossy(&record?.data));
//! }
//! log.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Where [`Options::method`] is not set, the first opening on a filesystem measures which commit
//! method is fastest there, for 300 ms at most; [`Log::method`] and [`calibration`] show the result.
//!
//! What a force guarantees depends on the method, the filesystem and the device: [`Log::guarantee`]
//! says it, and opening fails where the guarantee that [`Options::require`] asks for (by default:
//! survives a loss of power) cannot be had. `docs/durability.md` lists what is assumed, and
//! `docs/guide` has a page each on opening, policies, checkpoints, errors, reading, tuning and backup.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod calibration;
pub mod cuts;
mod many;
pub mod pages;
mod write_through;

use std::path::Path;
use std::sync::Arc;

pub use logforce_core::{
    Acknowledged, Append, BackupProgress, BackupReport, BackwardReader, Batch, BatchInfo,
    BatchKind, CheckpointDue, CommitHandle, Counters, CutEvidence, CutResult, Damage, Environment,
    EnvironmentOptions, EnvironmentStats, Epoch, Error, ErrorKind, Facts, FileState, Follower,
    ForceHandle, GivenUp, Guarantee, HistogramSnapshot, Inspector, LiveStats, LiveSummary, Log,
    LogId, LogSummary, Lsn, MAX_META_LEN, MAX_RECORD_LEN, Method, OnDamage, OpenMode, Options,
    Permit, Pin, Policy, ReadOnly, ReadOnlyFollower, Reader, Record, RecordRange, RecordRef,
    RecoveryCase, RecoveryReport, ReserveFuture, Result, SegmentInfo, Stats, Verdict, VerifyReport,
    Visit,
};
pub use many::{environment, open_many};

/// With an advisor that measures where the user named no method.
fn open(path: &Path, mode: OpenMode, options: Options) -> Result<Log> {
    let options = options.default_advisor(Arc::new(calibration::Calibrator));
    Log::open(&logforce_device_os::OsSystem::new(), path, mode, options)
}

/// Opens the log in the directory `path`; makes one where the directory is missing or empty.
pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    open(path.as_ref(), OpenMode::OpenOrCreate, options)
}

/// Opens the log in the directory `path`, which must hold one. A directory that is missing or was
/// emptied is an error, never a fresh log.
pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    open(path.as_ref(), OpenMode::OpenExisting, options)
}

/// Makes a log in the directory `path` (made if it is missing; its parent must exist). Fails if
/// there is one.
pub fn create_new(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    open(path.as_ref(), OpenMode::CreateNew, options)
}

/// Opens the log in the directory `path` in a task, as [`open_or_create`], [`open_existing`] or
/// [`create_new`] does: recovery, and what is measured at the first opening, run in a thread of their
/// own. Dropping the future after its first poll does not stop the opening; the log is closed then.
pub async fn open_async(path: impl AsRef<Path>, mode: OpenMode, options: Options) -> Result<Log> {
    use logforce_device::System;
    let path = path.as_ref().to_owned();
    let runtime = logforce_device_os::OsSystem::new().runtime();
    logforce_core::offload(&*runtime, &path.clone(), move || open(&path, mode, options)).await
}

/// Opens the log in `path` for reading: nothing is locked, changed or forced, and another process
/// may be writing it.
pub fn read_only(path: impl AsRef<Path>) -> Result<ReadOnly> {
    ReadOnly::open(&logforce_device_os::OsSystem::new(), path)
}

/// Copies the log in `from`, which another process may be writing, into the directory `to`, which must
/// be missing or empty: all that the writer has proven durable by a stamp, or, where nobody writes it,
/// all that the next opening would recover. Of a log that this process has open use [`Log::backup_to`],
/// which copies everything and holds the front meanwhile. `require`: what a sync must guarantee in `to`.
/// `progress` is called with the bytes that are copied and all that will be.
///
/// # Errors
/// Those of [`Log::backup_to`]. [`Error::Truncated`] if the writer truncates the log faster than it is
/// copied, after six attempts.
pub fn backup(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    require: Guarantee,
    progress: &mut BackupProgress<'_>,
) -> Result<BackupReport> {
    let system = logforce_device_os::OsSystem::new();
    logforce_core::backup(&system, from.as_ref(), to.as_ref(), require, progress)
}

/// Opens the log in `path` for inspection, segment by segment: nothing is locked, changed or forced.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::open(&logforce_device_os::OsSystem::new(), path)
}

/// Like [`inspect`], and where the control file is missing or damaged, from the segments alone.
pub fn salvage(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::salvage(&logforce_device_os::OsSystem::new(), path)
}

/// What the system says of the filesystem and the device below the directory `path`.
pub fn facts(path: impl AsRef<Path>) -> Result<Facts> {
    use logforce_device::System;
    let path = path.as_ref();
    let io = |source| Error::Io {
        doing: "look at the place",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    logforce_device_os::OsSystem::new()
        .directory(path)
        .and_then(|d| d.facts())
        .map_err(io)
}
