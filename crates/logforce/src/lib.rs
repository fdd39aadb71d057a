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
//! A log is a directory. [`open_or_create`] recovers it: every acknowledged record is present and durable. A
//! record that was not acknowledged is either present as a whole or gone for good. After the first start use
//! [`open_existing`]: it reports a missing or emptied directory as an error instead of creating a new log.
//!
//! # Guarantees
//!
//! Each commit returns a [`Guarantee`], which says what its record survives. The guarantee depends on the
//! commit method, the filesystem and the device. Every opening determines it anew.
//!
//! | guarantee | the record is | it survives |
//! |---|---|---|
//! | [`PowerLoss`](Guarantee::PowerLoss) | on the medium, or in a cache that the device protects | a loss of power |
//! | [`OsCrash`](Guarantee::OsCrash) | in the device, perhaps in its volatile cache | a crash of the system |
//! | [`ProcessCrash`](Guarantee::ProcessCrash) | in the system's cache | the end of the process, `kill -9` too |
//! | [`Nothing`](Guarantee::Nothing) | in the log's buffer | nothing |
//!
//! Opening fails with [`ErrorKind::Unavailable`] if the guarantee of [`Options::require`] (by default
//! `PowerLoss`) is not available: in memory (tmpfs), with barriers turned off, or on a device that has lost
//! data in a recorded power cut. It also fails if no party answers for the guarantee, as on NFS or FUSE;
//! [`Options::require_verdict`] accepts that. [`Log::guarantee`] returns the guarantee, [`Log::recovered`]
//! the evidence for it. No software can protect data on a device that lies about its flushes; [`disk::cuts`]
//! returns the recorded results of power-cut tests.
//!
//! If [`Options::method`] is not set, the first opening on a filesystem measures for at most 300 ms which
//! commit method is fastest. It compares only methods that guarantee what the default method guarantees.
//! [`Log::recovered`] and [`disk::calibration`] return the result.
//!
//! # Committing
//!
//! | call | returns | use it |
//! |---|---|---|
//! | [`Log::commit`] | when the record is durable | in threads: those that commit at the same time share one device write |
//! | [`Log::append`], then [`Log::force`] | `append` at once, `force` when everything below its position is durable | to force once for many records |
//! | [`Log::commit_async`] | when the record is durable | in tasks; it never blocks |
//! | [`Log::reserve`], then [`Permit::submit`] | `reserve` when there is space, `submit` at once, with a handle to await | in tasks that must control the order of their records |
//! | [`Log::submit`] | at once, with a handle; **it may block for space** | in threads that continue in the meantime |
//! | [`Log::submit_then`] | at once, and calls back later; **it may block for space** | in code that has neither a thread nor a task to wait in |
//!
//! Each call takes a record (any bytes) or a [`Batch`] of several records. After a crash either all records
//! of a batch are present or none. [`Log::commit_with`] and [`Log::submit`] take a [`Policy`]. Any policy
//! other than `Force` returns earlier, and [`Acknowledged::guarantee`] says what the record survives at that
//! time:
//!
//! | [`Policy`] | returns when the record is | a loss of power may lose |
//! |---|---|---|
//! | `Force`, the default | durable | nothing that was acknowledged |
//! | `Write { force_within }` | written: it survives a crash of the process | the records of the last `force_within` |
//! | `Interval { within }` | in the buffer: it survives nothing | the records of the last `within`; a crash of the process may, too |
//!
//! The last two policies lose only the newest records: the records that remain are always a prefix.
//!
//! # Checkpoints and truncation
//!
//! A log that is never truncated grows without limit. A checkpoint is a durable copy of your state, after
//! which the log can drop the records that the state contains. It takes three steps:
//!
//! 1. call [`Log::force`] with the end of the last record **that your state contains**;
//! 2. write the state durably, together with that position;
//! 3. call [`Log::truncate_front`] with that position.
//!
//! Do not use [`Log::durable_lsn`] as the position: another thread may have committed a record that it has
//! not applied yet. So append and apply under one lock, and force outside it. [`Options::max_log_size`]
//! limits the size of the log. Before the log is full, it requests a checkpoint from the thread or task that
//! receives [`Log::checkpoint_requests`].
//!
//! ```
//! # use logforce::{ErrorKind, Log, Lsn, Options};
//! # use std::sync::{Arc, Mutex};
//! # type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
//! # #[derive(Clone, Default)] struct State { applied: Lsn }
//! # impl State {
//! #     fn apply(&mut self, _: &[u8]) {}
//! #     fn write_durably(&self) -> std::io::Result<()> { Ok(()) }
//! #     fn read_or_default() -> std::io::Result<State> { Ok(State::default()) }
//! # }
//! struct Store { log: Log, state: Mutex<State>, checkpoints: Mutex<()> }
//!
//! impl Store {
//!     fn change(&self, record: &[u8]) -> Result<()> {
//!         let end = loop {
//!             match self.append_and_apply(record) {
//!                 Err(e) if e.kind() == ErrorKind::Full => self.checkpoint()?, // nothing was accepted
//!                 other => break other?,
//!             }
//!         };
//!         self.log.force(end)?; // without the lock: threads that wait here share one device write
//!         Ok(())
//!     }
//!
//!     fn append_and_apply(&self, record: &[u8]) -> logforce::Result<Lsn> {
//!         let mut state = self.state.lock().expect("no panic in it");
//!         let at = self.log.append(record)?; // under the lock: the log's order is the state's
//!         state.apply(record);
//!         state.applied = at.end;
//!         Ok(at.end)
//!     }
//!
//!     fn checkpoint(&self) -> Result<()> {
//!         // Otherwise an older file could replace a newer one to which the log was already truncated.
//!         let _one_at_a_time = self.checkpoints.lock().expect("no panic in it");
//!         let state = self.state.lock().expect("no panic in it").clone();
//!         self.log.force(state.applied)?; // nothing in a checkpoint that the log may lose
//!         state.write_durably()?; // under its final name, with `applied` in it
//!         self.log.truncate_front(state.applied)?;
//!         Ok(())
//!     }
//!
//!     fn open(path: &str) -> Result<Arc<Store>> {
//!         let log = logforce::open_or_create(path, Options::new().max_log_size(1 << 30))?;
//!         let mut requests = log.checkpoint_requests();
//!         let mut state = State::read_or_default()?;
//!         if log.front_lsn() > state.applied {
//!             return Err("the checkpoint is missing or too old: restore a backup".into());
//!         }
//!         for record in log.read_from(state.applied)? {
//!             let record = record?;
//!             state.apply(&record.data);
//!             state.applied = record.end;
//!         }
//!         let (state, checkpoints) = (Mutex::new(state), Mutex::new(()));
//!         let store = Arc::new(Store { log, state, checkpoints });
//!         let at_work = store.clone();
//!         std::thread::spawn(move || {
//!             while requests.next_blocking().is_some() { // until `Log::close`
//!                 at_work.checkpoint().unwrap_or_else(|e| eprintln!("no checkpoint: {e}"));
//!             }
//!         });
//!         Ok(store)
//!     }
//! }
//! ```
//!
//! A state of up to 4,000 bytes needs no file: [`Log::set_meta`] stores it in the log and replaces it
//! atomically.
//!
//! # Reading
//!
//! [`Log::read_at`] and [`Log::read_from`] return durable records; [`Log::read_back_from`] and [`Log::last`]
//! read backwards. None of them blocks the writer. [`Reader::next_ref`] returns a record without copying it.
//! [`Log::follow`] waits for further records, in a thread or as a stream in a task.
//!
//! Another process reads and follows the log with [`read_only`]. It sees records once a later write proves
//! them durable. So it is one commit late while commits follow each other, and sees everything
//! [`Tuning::idle_stamp`] (50 ms) after the last commit.
//!
//! Reading below the front fails with [`ErrorKind::Truncated`]. [`Log::pin`] protects records from
//! truncation.
//!
//! # Errors
//!
//! Every call returns a [`Result`]; the library does not panic. Programs decide by [`Error::kind`]:
//! [`ErrorKind`] documents for each kind the state of the record and the remedy. The message is for people,
//! and names file, position and remedy. Most programs handle errors like this:
//!
//! - [`NoSpace`](ErrorKind::NoSpace), [`Full`](ErrorKind::Full), [`WouldBlock`](ErrorKind::WouldBlock),
//!   [`Io`](ErrorKind::Io): the log has accepted nothing, and continues. Free space or remove the cause, then
//!   call again.
//! - [`Poisoned`](ErrorKind::Poisoned): a write or a sync failed. All acknowledged records are durable;
//!   reopen the log to find out about the others. **Do not use this log any more**: after a failed `fsync`
//!   the system may report success for a second one although the data is gone.
//! - [`Damaged`](ErrorKind::Damaged): acknowledged data was lost or changed on the medium. Do not change the
//!   files. Examine the damage with `logforce verify`, and save readable records with `logforce salvage`.
//!   Then restore a backup, or end the log before the damage with [`inspect::repair`].
//! - all others: report them and stop.
//!
//! # Limits
//!
//! | | |
//! |---|---|
//! | a record | 0 bytes to 64 MiB ([`Log::MAX_RECORD_LEN`]) |
//! | a [`Batch`] | up to 64 MiB in all; each record counts with its length rounded up to a multiple of 8, each record after the first with 8 bytes more |
//! | metadata | up to 4,000 bytes ([`Log::MAX_META_LEN`]) |
//! | a single small commit | writes 4 KiB, or the device's unit if larger ([`Tuning::write_unit_size`]); concurrent commits share that |
//! | disk | the current segment and, once half of it is used, the next one ([`Options::segment_size`], 64 MiB each by default; [`Options::first_segment_size`] makes the first ones smaller); up to four during bulk appends; up to two more for reuse ([`Tuning::max_spare_segments`]) |
//! | memory | [`Options::buffer_size`] (4 MiB) for records that are appended and not yet written |
//! | threads | two for each open log; an [`Environment`] shares six among any number of logs |
//! | descriptors | 9 for each open log, up to 30 while barriers are due; in an [`Environment`] one for an idle log |
//! | writers | one process, with one [`Log`] and its clones; calls of a forked child are refused |
//! | positions | 2<sup>64</sup> bytes of log; an [`Lsn`] that was durable is never reused |
//! | network filesystems | only one machine may mount one, because machines may not see each other's locks |
//!
//! # Not only a log
//!
//! - [`pages`]: page files, which commit a set of changed pages of a data file all or nothing.
//! - [`mod@file`]: durable writes and group commit for a file format of your own.
//! - [`environment`] and [`Options::open_many`]: one log for each shard, tenant or consensus group.
//! - [`Log::backup`] and [`backup`]: copies of a log that is being written.
//! - The command `logforce`: measures commit methods and disks, and inspects logs.

#![forbid(unsafe_code)]
// The library returns errors and never panics in a user's process.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod checkpoint;
mod directories;
pub mod disk;
pub mod file;
pub mod inspect;
#[doc(hidden)]
pub mod internal;
mod options;
pub mod pages;
pub mod replica;
pub mod stats;
mod tuning;

use std::path::Path;

pub use logforce_core::{
    Acknowledged, Append, BackupOptions, BackupReport, BackwardReader, Batch, CheckpointDue,
    CheckpointRequests, CommitHandle, Environment, EnvironmentOptions, Error, ErrorKind, Follower,
    Granted, Guarantee, Log, LogId, Lsn, Method, Permit, Pin, Policy, Position, ReadOnly,
    ReadOnlyFollower, Reader, Record, RecordRange, RecordRef, Refused, Result, Verdict,
};
pub use options::Options;
pub use tuning::Tuning;

/// Opens the log in the directory `path`; creates one if the directory is missing or empty.
/// Shortcut for [`Options::create`] and [`Options::open`].
pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(false).create(true).open(path)
}

/// Opens the existing log in the directory `path`. A missing or emptied directory is an error; no log is
/// created in it. Shortcut for [`Options::open`].
pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(false).create(false).open(path)
}

/// Creates a log in the directory `path`, and the directory if it is missing; its parent must exist. Fails if
/// there is a log already. Shortcut for [`Options::create_new`] and [`Options::open`].
pub fn create_new(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(true).open(path)
}

/// Starts an environment: threads, memory and open files that many logs of this process share. Open each log
/// with [`Options::environment`]. The threads end when the last holder of the environment is dropped: its
/// clones, its logs, and the [`Options`] in which it is set.
///
/// # Errors
/// [`ErrorKind::Io`] if the system cannot start the threads.
pub fn environment(options: &EnvironmentOptions) -> Result<Environment> {
    use logforce_device::System;
    Environment::start(logforce_device_os::OsSystem::new().runtime(), options)
}

/// Opens the log in `path` for reading. Locks, changes and forces nothing; another process may be writing the
/// log.
pub fn read_only(path: impl AsRef<Path>) -> Result<ReadOnly> {
    ReadOnly::open(&logforce_device_os::OsSystem::new(), path)
}

/// Copies the log in `from` into the directory `to`, which must be missing or empty. Another process may be
/// writing the log: then the copy contains all records that a stamp proves durable. Without a writer it
/// contains all records that the next opening would recover. For a log that this process has open use
/// [`Log::backup`], which copies everything and holds the front meanwhile.
///
/// # Errors
/// The errors of [`Log::backup`]. [`ErrorKind::Truncated`] if the writer truncated the log faster than it was
/// copied, in each of six attempts.
pub fn backup(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: BackupOptions<'_>,
) -> Result<BackupReport> {
    let system = logforce_device_os::OsSystem::new();
    logforce_core::backup(&system, from.as_ref(), to.as_ref(), options)
}
