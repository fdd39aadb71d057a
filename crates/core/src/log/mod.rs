//! `Log`: the public handle of a log.

mod backup;
pub(crate) mod checkpoint_requests;
mod close;
mod close_all;
pub(crate) mod handles;
mod meta;
pub(crate) mod offload;
pub(crate) mod replicate;
pub(crate) mod reserve;
mod submit;

use crate::background::{own_threads, pooled};
use crate::batch::Append;
use crate::engine::Engine;
use crate::error::Result;
use crate::metrics::Stats;
use crate::options::{OpenMode, Options};
use crate::policy::Policy;
use crate::read::backward::BackwardReader;
use crate::read::divergence::Compared;
use crate::read::follow::Follower;
use crate::read::history::Position;
use crate::read::reader::Reader;
use crate::recovery;
use crate::trace;
use crate::truncation::back::truncate_back;
use crate::truncation::front::truncate_front;
use crate::truncation::pin::{Pin, pin, pin_front};
use crate::types::Record;
use crate::types::{Acknowledged, RecordRange, RecoveryReport};
use checkpoint_requests::CheckpointRequests;
use logforce_device::{Granted, NamedFiles, System};
use logforce_format::{LogId, Lsn, MAX_META_LEN, MAX_RECORD_LEN};
use std::path::Path;
use std::sync::Arc;

/// A transaction log, open for writing. Clones share the same log; call it from any thread.
///
/// It closes when the last clone is dropped, or by [`Log::close`], which reports an error.
#[derive(Clone)]
pub struct Log {
    handle: Arc<Handle>,
}

/// Closes the log and ends its threads when the last clone is dropped.
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
}

impl Log {
    /// Maximum length of a record or a batch in bytes: 64 MiB.
    pub const MAX_RECORD_LEN: usize = MAX_RECORD_LEN;
    /// Maximum length of the metadata in bytes: 4,000.
    pub const MAX_META_LEN: usize = MAX_META_LEN;

    /// Opens a log in the directory `path` of `system`.
    ///
    /// Recovers the log first. When this returns, every acknowledged record is present and durable. A record
    /// that was not acknowledged is either present and durable, or gone permanently.
    #[doc(hidden)]
    pub fn open(
        system: &dyn System,
        path: impl AsRef<Path>,
        mode: OpenMode,
        options: Options,
    ) -> Result<Log> {
        let engine = {
            let _span = trace::opening(path.as_ref());
            let parts = recovery::open(system, path.as_ref(), mode, options)?;
            let engine = Engine::start(parts);
            trace::opened(&engine.config.report, engine.config.unit);
            Arc::new(engine)
        };
        let log = Log {
            handle: Arc::new(Handle {
                engine: engine.clone(),
            }),
        };
        match &engine.membership {
            Some(membership) => {
                pooled::start(&engine, membership);
                let handle = Arc::downgrade(&log.handle);
                membership.opened(handle);
            }
            None => own_threads::start(&engine)?,
        }
        Ok(log)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    pub(crate) fn engine_arc(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    /// Appends a record of up to 64 MiB, or a [`Batch`](crate::Batch) of several. It is in memory only,
    /// until this caller or another one forces it. Returns the range from the first record's start to the
    /// last one's end.
    ///
    /// Waits while the log buffer is full and while a segment is prepared.
    ///
    /// # Errors
    /// After any error the log has not accepted the record. [`Error::NoSpace`](crate::Error::NoSpace) and
    /// [`Error::Full`](crate::Error::Full) until space is freed; [`Error::TooLarge`](crate::Error::TooLarge).
    pub fn append(&self, mut records: impl Append) -> Result<RecordRange> {
        records.append_by(|records, placed| self.engine().append(records, placed))
    }

    /// Makes all records below `end` durable, and returns their guarantee.
    pub fn force(&self, end: Lsn) -> Result<Granted> {
        self.engine().view.check_process()?;
        self.engine().force(end)
    }

    /// Appends a record or a [`Batch`](crate::Batch), and returns when it is durable. Commits of
    /// several threads share device writes.
    ///
    /// # Errors
    /// Fails as [`Log::append`] does. After [`Error::Poisoned`](crate::Error::Poisoned) it is unknown whether the
    /// record is in the log, until the log is opened again.
    pub fn commit(&self, records: impl Append) -> Result<Acknowledged> {
        self.commit_with(records, Policy::Force)
    }

    /// Commits like [`Log::commit`], but returns when `policy` is met, which may be before the record is
    /// durable: see [`Acknowledged::guarantee`].
    pub fn commit_with(&self, mut records: impl Append, policy: Policy) -> Result<Acknowledged> {
        records.append_by(|records, placed| self.engine().commit(records, policy, placed))
    }

    /// Returns the durable LSN: the exclusive end of the records that have the guarantee
    /// [`Log::guarantee`]. Takes no lock. It may lie slightly above the end of the last record, because the
    /// log pads its writes. It is the position of a follower that has caught up.
    pub fn durable_lsn(&self) -> Lsn {
        self.engine().durable()
    }

    /// Returns the exclusive end of the appended records.
    pub fn tail_lsn(&self) -> Lsn {
        self.engine().state().tail()
    }

    /// Returns the front: records below are gone. Takes no lock.
    pub fn front_lsn(&self) -> Lsn {
        self.engine().front()
    }

    /// Returns the record at `start`, which must be durable.
    pub fn read_at(&self, start: Lsn) -> Result<Record> {
        self.engine().view.check_process()?;
        Reader::at_record(self.engine().view.clone(), start)
    }

    /// Reads durable records from `from` on. `from` is the start or the end of a record, or
    /// [`Log::front_lsn`]. If another thread truncates between that call and this one, this fails with
    /// [`Error::Truncated`](crate::Error::Truncated); see [`Log::follow_lsn`].
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        self.engine().view.check_process()?;
        Reader::from_boundary(self.engine().view.clone(), from)
    }

    /// Reads durable records backwards, beginning with the last one that ends at `from` or below. `from` is
    /// the start or the end of a record, or [`Log::durable_lsn`].
    pub fn read_back_from(&self, from: Lsn) -> Result<BackwardReader> {
        self.engine().view.check_process()?;
        BackwardReader::from_boundary(self.engine().view.clone(), from)
    }

    /// Returns the last durable record; `None` in a log without records.
    pub fn last(&self) -> Result<Option<Record>> {
        self.read_back_from(self.durable_lsn())?.next().transpose()
    }

    /// Drops the records below `front`, but only whole appends: the new front is the last position at or
    /// below `front` at which an append begins or ends. The truncation is durable when this returns. It first
    /// forces the records below that are not durable yet. The log reuses or removes the segments that lie
    /// entirely below the new front. A position below the current front changes nothing.
    ///
    /// Fails with [`Error::Voided`](crate::Error::Voided) in a void range, and with
    /// [`Error::BeyondEnd`](crate::Error::BeyondEnd) above the end of the appended records.
    ///
    /// If a [`Pin`] lies below, the front moves only to the oldest pin, and this returns `Ok`:
    /// [`Log::front_lsn`] returns the front. The log remembers the request while it is open, and moves the
    /// front as pins advance or are dropped. This breaks pins that lie more than
    /// [`Options::max_pinned_size`] bytes below `front`.
    pub fn truncate_front(&self, front: Lsn) -> Result<()> {
        let in_progress = self.engine().begin_file_change()?;
        truncate_front(&self.handle.engine, front)?;
        drop(in_progress);
        trace::truncated("front", front);
        Ok(())
    }

    /// Returns the log's requests for checkpoints. With [`Options::max_log_size`], the log makes a request
    /// when it has prepared the last segment that fits, while about a whole segment is still free. It makes
    /// another one when half of that segment is used, and one whenever it refuses an append with
    /// [`Error::Full`](crate::Error::Full).
    ///
    /// The taker of a request makes a durable checkpoint of the log's contents, and then calls
    /// [`Log::truncate_front`], if possible at or above
    /// [`CheckpointDue::truncate_to`](crate::CheckpointDue::truncate_to). No append waits for that, so the
    /// checkpoint may take locks under which other threads append.
    ///
    /// If the checkpoint is a record of this log, it needs space in a full log: keep a
    /// [`Permit`](crate::Permit) for it. Permits end with the process, and an opening uses a write unit of the
    /// space. So after an opening, append that record or truncate before anything else.
    ///
    /// ```
    /// # use logforce_core::{Log, Lsn, Result};
    /// # fn write_checkpoint() -> std::io::Result<Lsn> { Ok(Lsn::ORIGIN) }
    /// # fn example(log: &Log) {
    /// let (mut requests, log) = (log.checkpoint_requests(), log.clone());
    /// std::thread::spawn(move || {
    ///     while requests.next_blocking().is_some() { // until the log is closed
    ///         // Durable when it returns, with all records below `covered` in it.
    ///         match write_checkpoint() {
    ///             Ok(covered) => log.truncate_front(covered).unwrap_or_else(|e| eprintln!("{e}")),
    ///             Err(e) => eprintln!("no space was made: {e}"),
    ///         }
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// The clone in that thread keeps the log open until [`Log::close`] ends the requests.
    pub fn checkpoint_requests(&self) -> CheckpointRequests {
        CheckpointRequests::new(&self.engine().view)
    }

    /// Voids every record from `from` on, durably. `from` is the start or the end of an append. Within an
    /// atomic append, this fails with [`Error::WithinAppend`](crate::Error::WithinAppend), because an append
    /// is voided as a whole or not at all. The LSNs of the voided records are not used again: reading there
    /// fails with [`Error::Voided`](crate::Error::Voided). The call may void records that other threads
    /// append while it runs.
    pub fn truncate_back(&self, from: Lsn) -> Result<()> {
        let in_progress = self.engine().begin_file_change()?;
        truncate_back(&self.handle.engine, from)?;
        drop(in_progress);
        trace::truncated("back", from);
        Ok(())
    }

    /// Holds the front at or below `lsn` until the pin is dropped, advanced or broken. `lsn` is the start or
    /// the end of a durable record, and not below [`Log::front_lsn`]. If it lies within an atomic append, the
    /// pin is at the append's start.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) below the front,
    /// [`Error::NotABoundary`](crate::Error::NotABoundary) within a record;
    /// [`Error::Voided`](crate::Error::Voided) and [`Error::BeyondEnd`](crate::Error::BeyondEnd) as in reads.
    ///
    /// With `None`, holds the front at its current position. Unlike with the front's LSN, this does not fail
    /// while another thread truncates, but waits for that thread.
    pub fn pin(&self, lsn: impl Into<Option<Lsn>>) -> Result<Pin> {
        match lsn.into() {
            Some(lsn) => pin(self.engine_arc(), lsn),
            None => pin_front(self.engine_arc()),
        }
    }

    /// Follows the log from a follower's [position](Follower::position) on. The position may have been stored
    /// long ago, or come from a [`ReadOnlyFollower`](crate::ReadOnlyFollower).
    ///
    /// # Errors
    /// [`Error::Diverged`](crate::Error::Diverged) if the log now contains another history;
    /// [`Error::OtherLog`](crate::Error::OtherLog) if it is another log;
    /// [`Error::Truncated`](crate::Error::Truncated) and [`Error::Voided`](crate::Error::Voided) as for
    /// [`Log::read_from`].
    pub fn follow(&self, from: &Position) -> Result<Follower> {
        self.engine().view.check_process()?;
        Follower::from_position(self.compared(), from)
    }

    fn compared(&self) -> Compared<'_> {
        let engine = self.engine();
        Compared {
            view: &engine.view,
            end: engine.durable(),
            epoch: engine.config.epoch,
        }
    }

    /// Follows the log from the LSN `from` on: the start or the end of a record, or [`Log::front_lsn`]. An
    /// LSN does not identify the history of the log to which it belongs. So pass only LSNs that this `Log`
    /// has returned; to continue later, store positions ([`Log::follow`]).
    ///
    /// Another thread may truncate between [`Log::front_lsn`] and this call. If you do not need the records
    /// in between, begin again at the new front:
    ///
    /// ```
    /// # use logforce_core::{Error, Follower, Log};
    /// # fn follow(log: &Log) -> logforce_core::Result<Follower> {
    /// let mut from = log.front_lsn();
    /// let follower = loop {
    ///     match log.follow_lsn(from) {
    ///         Err(Error::Truncated { front, .. }) => from = front, // truncated meanwhile
    ///         other => break other?,
    ///     }
    /// };
    /// # Ok(follower)
    /// # }
    /// ```
    ///
    /// A truncation right after this call ends the follower with the same error. [`Log::pin`] with `None`
    /// prevents both errors: begin at [`Pin::lsn`].
    pub fn follow_lsn(&self, from: Lsn) -> Result<Follower> {
        self.engine().view.check_process()?;
        Follower::from_lsn(self.compared(), from)
    }

    /// Returns the statistics since the log was opened. Takes no lock, so the numbers may differ from each
    /// other by a few records. [`Stats::difference`] returns the statistics of an interval.
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Returns the guarantee of a force. [`Log::recovered`] returns the method and the evidence.
    pub fn guarantee(&self) -> Granted {
        self.engine().config.force.granted()
    }

    /// Returns the random number that identifies this log.
    pub fn id(&self) -> LogId {
        self.engine().view.log_id
    }

    /// Returns the log's directory.
    pub fn path(&self) -> &Path {
        &self.engine().view.path
    }

    /// Returns the result of the opening.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.engine().config.report
    }

    /// Forces everything, marks the log as closed cleanly, ends its threads and releases the lock. From then
    /// on, calls of all clones that append, reserve, truncate, back up, discard or set the metadata fail with
    /// [`Error::Closed`](crate::Error::Closed). Followers end. Calls that only read, pin or report
    /// (`read_at`, `read_from`, `last`, `follow`, `follow_lsn`, `pin` of the front, `durable_lsn`, `stats`,
    /// `meta`) still work, on the log as it was at the close. So does a `force` of durable records. Pins no
    /// longer hold the front: another opening may truncate the records of their readers.
    ///
    /// Dropping the last clone releases the descriptors, which keep a filesystem from being unmounted. It
    /// also closes a log that is still open, but cannot report a failure.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }

    /// Makes the log check these files whenever it checks its own files. They are files that the owner needs
    /// to find the log. Only the first call has an effect.
    #[doc(hidden)]
    pub fn watch_beside(&self, files: NamedFiles) {
        let _ = self.engine().location.beside.set(files);
    }

    /// Fails the log if one of its files, or of the files beside it, is not where it was opened.
    #[doc(hidden)]
    pub fn check_location(&self) -> Result<()> {
        self.engine().check_location()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("path", &self.path())
            .field("method", &self.recovered().method)
            .field("front", &self.front_lsn())
            .field("durable", &self.durable_lsn())
            .finish_non_exhaustive()
    }
}
