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
//! A log is a directory. [`open_or_create`] recovers it: every acknowledged record is there and durable,
//! and a record that was not acknowledged is there whole or gone for good. After the first start prefer
//! [`open_existing`], to which a missing or emptied directory is an error and never a fresh log.
//!
//! # Guarantees
//!
//! A commit says what it survives, as a [`Guarantee`]: it depends on the commit method, the filesystem and
//! the device, and is found out at every opening.
//!
//! | guarantee | the record is | it survives |
//! |---|---|---|
//! | [`PowerLoss`](Guarantee::PowerLoss) | on the medium, or in a cache that the device protects | a loss of power |
//! | [`OsCrash`](Guarantee::OsCrash) | in the device, perhaps in its volatile cache | a crash of the system |
//! | [`ProcessCrash`](Guarantee::ProcessCrash) | in the system's cache | the end of the process, `kill -9` too |
//! | [`Nothing`](Guarantee::Nothing) | in the log's buffer | nothing |
//!
//! Opening fails with [`ErrorKind::Unavailable`] where the guarantee of [`Options::require`] (by default
//! `PowerLoss`) cannot be had: in memory (tmpfs), with barriers turned off, on a device that was seen to lose
//! data. [`Log::guarantee`] and [`Log::recovered`] say what there is and why. Nothing in software helps
//! against a device that lies about its flushes; [`disk::cuts`] has what power cuts have shown of one.
//!
//! Where [`Options::method`] is not set, the first opening on a filesystem measures which commit method is
//! fastest there, for 300 ms at most, among those that guarantee what the default does; [`Log::recovered`] and
//! [`disk::calibration`] show the result.
//!
//! # Committing
//!
//! | call | returns | use it |
//! |---|---|---|
//! | [`Log::commit`] | when the record is durable | in threads: those that commit at the same time share one device write |
//! | [`Log::append`], then [`Log::force`] | at once; when all below is durable | to force once for many |
//! | [`Log::commit_async`] | when the record is durable | in tasks; it blocks nowhere |
//! | [`Log::reserve`], then [`Permit::submit`] | when there is space; at once, with a handle to await | in tasks whose records must come in an order that you decide |
//! | [`Log::submit`] | at once, with a handle; **it may block for space** | in threads that go on meanwhile |
//! | [`Log::submit_then`] | at once; a callback later | where there is neither thread nor task |
//!
//! Each takes a record, which is anything that is bytes, or a [`Batch`] of several that are there after a
//! crash together or not at all. With [`Log::commit_with`] and [`Log::submit`] a [`Policy`] other than
//! `Force` returns earlier, and tells in [`Acknowledged::guarantee`] what the record survives then:
//!
//! | [`Policy`] | returns when the record is | a loss of power may take |
//! |---|---|---|
//! | `Force`, the default | durable | nothing that was acknowledged |
//! | `Write { force_within }` | written: it survives a crash of the process | the last `force_within` |
//! | `Interval { within }` | in the buffer: it survives nothing | the last `within`, as a crash of the process does |
//!
//! What is lost under the last two is always the newest: what is left is a prefix.
//!
//! # Checkpoints and truncation
//!
//! A log that is never truncated grows without end. Write your state durably with the end of the last record
//! **that is in it**, [`Log::force`] up to there first, and call [`Log::truncate_front`] with that position
//! afterwards. That is not [`Log::durable_lsn`]: another thread may have committed what it has not applied
//! yet. So append and apply under one lock, and force outside it. [`Options::max_log_size`] bounds the log, and
//! [`Log::checkpoint_requests`] tell a thread or a task before it is full.
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
//!         // Of two at once, the older file could replace the newer after the truncation to the newer.
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
//! A state of up to 4,000 bytes needs no file: [`Log::set_meta`] replaces it atomically.
//!
//! # Reading
//!
//! [`Log::read_at`], [`Log::read_from`] and, backwards, [`Log::read_back_from`] and [`Log::last`] show durable
//! records and never block the writer; [`Reader::next_ref`] lends each without a copy. [`Log::follow`] waits
//! for more, in a thread or as a stream in a task. Another process reads and follows by [`read_only`]: it sees
//! what is proven durable, which is one commit late while commits follow each other, and everything
//! [`Tuning::idle_stamp`] (50 ms) after the last one. A position below the front answers
//! [`ErrorKind::Truncated`]; hold the front by [`Log::pin`].
//!
//! # Errors
//!
//! Every call returns a [`Result`]; the library does not panic. [`Error::kind`] is for the program:
//! [`ErrorKind`] says of each what it means for the record and what to do. The message is for people, and
//! names file, position and remedy. Most programs do this:
//!
//! - [`NoSpace`](ErrorKind::NoSpace), [`Full`](ErrorKind::Full), [`WouldBlock`](ErrorKind::WouldBlock),
//!   [`Io`](ErrorKind::Io): nothing was accepted, and the log goes on. Make room or mend the cause, and call again.
//! - [`Poisoned`](ErrorKind::Poisoned): a write or a sync failed. What was acknowledged is durable; whether
//!   the rest is there is known after reopening. **Call nothing again on this log**: after a failed `fsync`
//!   the system may say that a second one has succeeded while the data is gone.
//! - [`Damaged`](ErrorKind::Damaged): acknowledged data was lost or changed on the medium. Leave the files
//!   alone, look by `logforce verify`, save what can be read by `logforce salvage`, restore a backup, or end the
//!   log before the damage by [`inspect::repair`].
//! - all others: report them and stop.
//!
//! # Limits
//!
//! | | |
//! |---|---|
//! | a record | up to 64 MiB ([`Log::MAX_RECORD_LEN`]), and so is all of a [`Batch`], where each record counts rounded up to 8 bytes and each but the first 8 bytes more; it may be empty |
//! | metadata | up to 4,000 bytes ([`Log::MAX_META_LEN`]) |
//! | a commit by itself | writes 4 KiB, or the device's larger unit ([`Tuning::write_unit_size`]); commits at the same time share that |
//! | disk | the segment in use and, when half of it is used, the one prepared ahead ([`Options::segment_size`], 64 MiB each by default; [`Options::first_segment_size`] lets a log begin small), in bulk up to four; up to two more are kept for reuse ([`Tuning::max_spare_segments`]) |
//! | memory | [`Options::buffer_size`] (4 MiB) for records that are appended and not written |
//! | threads | two for each open log; an [`Environment`] shares six among any number of logs |
//! | descriptors | 8 for each open log, up to 30 while barriers are due; in an [`Environment`] one for an idle log |
//! | writers | one process, and in it one [`Log`] with its clones; after a `fork` the child's calls are refused |
//! | positions | 2<sup>64</sup> bytes of log; an [`Lsn`] is never used again once it was durable |
//! | network filesystems | one machine may have it mounted; locks of another one may not be seen |
//!
//! # Not only a log
//!
//! [`pages`] has page files: commit a set of changed pages of a data file all or nothing. [`environment`] and
//! [`Options::open_many`] are for a log per shard, tenant or consensus group. [`Log::backup`] and [`backup`] copy a
//! log while it is written. The command `logforce` measures commit methods and disks, and looks into logs.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod checkpoint;
mod directories;
pub mod disk;
pub mod inspect;
#[doc(hidden)]
pub mod internal;
mod options;
pub mod pages;
pub mod stats;
mod tuning;

use std::path::Path;

pub use logforce_core::{
    Acknowledged, Append, BackupOptions, BackupReport, BackwardReader, Batch, CheckpointDue,
    CheckpointRequests, CommitHandle, Environment, EnvironmentOptions, Error, ErrorKind, Follower,
    Granted, Guarantee, Log, LogId, Lsn, Method, Permit, Pin, Policy, Position, ReadOnly,
    ReadOnlyFollower, Reader, Record, RecordRange, RecordRef, Result, Verdict,
};
pub use options::Options;
pub use tuning::Tuning;

/// Opens the log in the directory `path`; makes one where the directory is missing or empty.
/// A shortcut of [`Options::create`] and [`Options::open`].
pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(false).create(true).open(path)
}

/// Opens the log in the directory `path`, which must hold one. A directory that is missing or was
/// emptied is an error, never a fresh log. A shortcut of [`Options::open`].
pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(false).create(false).open(path)
}

/// Makes a log in the directory `path` (made if it is missing; its parent must exist). Fails if
/// there is one. A shortcut of [`Options::create_new`] and [`Options::open`].
pub fn create_new(path: impl AsRef<Path>, options: Options) -> Result<Log> {
    options.create_new(true).open(path)
}

/// Starts an environment: what many logs of this process share, each opened with
/// [`Options::environment`]. Its threads end when all is dropped that holds it: its clones, its logs, and the
/// [`Options`] that it was set in.
///
/// # Errors
/// [`ErrorKind::Io`] if the system gives no threads.
pub fn environment(options: &EnvironmentOptions) -> Result<Environment> {
    use logforce_device::System;
    Environment::start(logforce_device_os::OsSystem::new().runtime(), options)
}

/// Opens the log in `path` for reading: nothing is locked, changed or forced, and another process
/// may be writing it.
pub fn read_only(path: impl AsRef<Path>) -> Result<ReadOnly> {
    ReadOnly::open(&logforce_device_os::OsSystem::new(), path)
}

/// Copies the log in `from`, which another process may be writing, into the directory `to`, which must
/// be missing or empty: all that the writer has proven durable by a stamp, or, where nobody writes it,
/// all that the next opening would recover. Of a log that this process has open use [`Log::backup`],
/// which copies everything and holds the front meanwhile.
///
/// # Errors
/// Those of [`Log::backup`]. [`ErrorKind::Truncated`] if the writer truncates the log faster than it is
/// copied, after six attempts.
pub fn backup(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: BackupOptions<'_>,
) -> Result<BackupReport> {
    let system = logforce_device_os::OsSystem::new();
    logforce_core::backup(&system, from.as_ref(), to.as_ref(), options)
}
