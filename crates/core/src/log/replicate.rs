//! The replica of a log: it reads the durable bytes, keeps them elsewhere, and confirms them.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::read::raw::{LogChunk, LogState, RawReader, decode_control};
use crate::storage::hold::{AtHoldLimit, Hold};
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::WaitFor;
use crate::truncation::pin::pin_front;
use logforce_commit::sync::wakers::WakerId;
use logforce_format::{Lsn, planted};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Bytes by which confirmations must advance before the front follows. A move of the front forces the control
/// file; after each confirmation it would compete with the commits.
const MOVE_STEP: u64 = 1 << 20;

/// The replica of an open log: a party that keeps the log's durable bytes elsewhere. It moves the
/// [replicated LSN](Log::replicated_lsn), for which commits by
/// [`Policy::Replicated`](crate::Policy::Replicated) wait.
///
/// The owner reads chunks in order ([`Replication::read`]), stores them, and confirms them in order
/// ([`Replication::confirm`]). While it exists, the log drops nothing that it has not confirmed.
///
/// Dropping it without [`Replication::fail`] ends it as well: commits that wait get
/// [`Error::ReplicaLost`].
pub struct Replication {
    engine: Arc<Engine>,
    reader: RawReader,
    id: u64,
    /// Ends of the chunks that were read and not confirmed, in order.
    unconfirmed: VecDeque<Lsn>,
    /// Position at which the front was last moved for a confirmation.
    held: Lsn,
    /// Number of bytes after which it is moved again.
    step: u64,
    waker_id: Option<WakerId>,
    /// Durable LSN below which everything that is not read belongs to an unfinished atomic append.
    tried: Lsn,
}

/// Reason for the return of [`Replication::wait`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReplicaWait {
    /// There are durable bytes to read.
    Ready,
    /// The timeout has passed.
    TimedOut,
    /// The log was closed, and everything was read.
    Closed,
    /// The log has failed, and everything durable was read.
    Failed(Error),
}

/// Options of [`Log::replicate`].
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    after: Option<Vec<u8>>,
    limit: u64,
    at_limit: AtHoldLimit,
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        ReplicaOptions {
            after: None,
            limit: u64::MAX,
            at_limit: AtHoldLimit::RefuseAppends,
        }
    }
}

impl ReplicaOptions {
    /// Returns the defaults: a new replica, for which the log keeps everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the [control slot](LogChunk::control) of the last chunk that the replica has. The replica goes on
    /// behind it.
    pub fn after(mut self, control: &[u8]) -> Self {
        self.after = Some(control.to_vec());
        self
    }

    /// Sets how many bytes the log keeps for the replica below the front that its owner has requested, and
    /// the choice when it is more. The log decides when it moves its front and when it prepares a segment.
    /// From three quarters of the limit on it counts alarms ([`Counters::replica_alarms`]). Default: no
    /// limit.
    ///
    /// [`Counters::replica_alarms`]: crate::Counters::replica_alarms
    pub fn limit(mut self, bytes: u64, at_limit: AtHoldLimit) -> Self {
        (self.limit, self.at_limit) = (bytes, at_limit);
        self
    }
}

impl Log {
    /// Attaches a replica to the log: an archive, or another machine.
    ///
    /// # Errors
    /// [`Error::ReplicaAttached`] if the log has one; [`Error::Truncated`] if the log was truncated beyond
    /// the end of the replica; [`Error::Diverged`] if this log does not contain what the replica has, or ends
    /// below; [`Error::OtherLog`].
    pub fn replicate(&self, options: ReplicaOptions) -> Result<Replication> {
        let engine = self.engine_arc();
        engine.check()?;
        let ReplicaOptions {
            after,
            limit,
            at_limit,
        } = options;
        // Held until the hold is in force, so that no truncation removes the files meanwhile.
        let front = pin_front(engine)?;
        let control = engine.files.control.current();
        let reader = RawReader::from_first_segment(engine.view.clone(), &control);
        let held = front.lsn();
        let id = engine.attach_replica(Hold::new(held, limit, at_limit))?;
        let mut replication = Replication {
            engine: engine.clone(),
            reader,
            id,
            unconfirmed: VecDeque::new(),
            held,
            step: MOVE_STEP.min(limit / 8),
            waker_id: None,
            tried: Lsn::ORIGIN,
        };
        if let Some(after) = after {
            replication.go_on_after(&after)?;
        }
        Ok(replication)
    }

    /// Returns the replicated LSN: everything below is durable here and confirmed by the log's replica.
    /// [`Lsn::ORIGIN`] before the first confirmation of this opening. Takes no lock.
    pub fn replicated_lsn(&self) -> Lsn {
        self.engine().view.replicated.lsn()
    }
}

impl Replication {
    /// Goes on behind the chunk whose [control slot](LogChunk::control) is given: the last one that the replica
    /// has. Everything below counts as confirmed. See [`ReplicaOptions::after`].
    ///
    /// # Errors
    /// As [`Log::replicate`]. The replica then stays where it was.
    pub fn go_on_after(&mut self, control: &[u8]) -> Result<()> {
        let copied = decode_control(control)?;
        let engine = &self.engine;
        let current = engine.files.control.current();
        self.reader = RawReader::after(engine.view.clone(), &current, &copied)?;
        self.unconfirmed.clear();
        self.confirmed(self.position());
        Ok(())
    }

    /// Returns the exclusive end of the chunks that were read.
    pub fn position(&self) -> Lsn {
        self.reader.position()
    }

    /// Returns the state of the log: its front, its durable end, and its openings.
    pub fn state(&self) -> LogState {
        let control = self.engine.files.control.current();
        LogState::of(&control, self.engine.durable())
    }

    /// Returns the number of durable bytes that were not read yet.
    pub fn pending(&self) -> u64 {
        self.engine.durable().since(self.position())
    }

    /// Reads the next chunk of durable bytes, of about `max` bytes. It ends between two atomic appends, so a
    /// chunk with a large one is larger: up to 64 MiB more. A range that a repair has voided is in one chunk, of
    /// up to 256 MiB. Returns `None` if there is nothing to read now.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the log is damaged here; [`Error::ReplicaLost`] if the log goes on without this
    /// replica, at its [limit](ReplicaOptions::limit); [`Error::Io`], also if a voided range is longer than a
    /// chunk. The next call begins at the same position.
    pub fn read(&mut self, max: u64) -> Result<Option<LogChunk>> {
        let engine = &self.engine;
        engine.view.check_process()?;
        engine.view.replicated.check_attached(&engine.view.path)?;
        let limit = engine.durable();
        let control = engine.files.control.current();
        let meta = engine.files.control.meta_bytes();
        let chunk = self.reader.read(&control, meta, limit, max)?;
        match &chunk {
            Some(chunk) => self.unconfirmed.push_back(chunk.to),
            None => self.tried = limit,
        }
        Ok(chunk)
    }

    /// Confirms that everything below `to` is safe in the replica. Chunks are confirmed in order: `to` covers
    /// everything below. Only whole chunks count: an LSN within a chunk confirms the chunks below, because a
    /// part of a chunk cannot be restored.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] above the chunks that were read.
    pub fn confirm(&mut self, to: Lsn) -> Result<()> {
        let end = self.position();
        if to > end {
            return Err(Error::BeyondEnd { lsn: to, end });
        }
        let count = self.unconfirmed.partition_point(|end| *end <= to);
        let Some(whole) = self.unconfirmed.drain(..count).next_back() else {
            return Ok(());
        };
        self.confirmed(planted!("chunk-confirmed-in-part", to, else whole));
        Ok(())
    }

    /// Moves the replicated LSN to `to`. From time to time the front follows.
    fn confirmed(&mut self, to: Lsn) {
        self.engine.replica_confirmed(self.id, to);
        let moves = to.since(self.held) >= self.step;
        if moves {
            self.held = to;
        }
        self.engine.replica_needs(to, moves);
    }

    /// Ends the replica, because it cannot confirm more. Commits that wait for it get
    /// [`Error::ReplicaLost`] with the reason `why`. The log goes on without a replica.
    pub fn fail(self, why: impl Into<String>) {
        self.engine.replica_ended(self.id, why.into());
    }

    /// Ends the replica **and the log**, because `by` has taken the log over, elsewhere. From now on the log
    /// accepts nothing. All calls fail with an [`Error::Poisoned`] whose cause is [`Error::Deposed`].
    pub fn deposed(self, by: impl Into<String>) -> Error {
        self.engine.deposed(self.id, by.into())
    }

    /// Returns what there is to do, if it is known now.
    fn ready(&self) -> Option<ReplicaWait> {
        // Reads the end first. Otherwise records that became durable just before it would be missed.
        let ended = self.engine.view.ended();
        if self.engine.durable() > self.position().max(self.tried) {
            return Some(ReplicaWait::Ready);
        }
        match ended? {
            None => Some(ReplicaWait::Closed),
            Some(e) => Some(ReplicaWait::Failed(e)),
        }
    }

    /// Waits until there are bytes to read, or the log has ended. If they are part of an unfinished atomic
    /// append, [`Replication::read`] may return `None` nevertheless.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<ReplicaWait> {
        let view = &self.engine.view;
        let began = view.runtime.now();
        loop {
            let seen = view.advanced.observe();
            if let Some(answer) = self.ready() {
                return Ok(answer);
            }
            refuse_in_waker()?;
            let passed = view.runtime.now().saturating_sub(began);
            let left = timeout.map(|t| t.saturating_sub(passed));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(ReplicaWait::TimedOut);
            }
            view.advanced
                .wait(&*view.runtime, seen, left, WaitFor::NextRecord);
        }
    }

    /// Waits as [`Replication::wait`] does, as a future without a timeout. Dropping the future changes
    /// nothing.
    pub async fn changed(&mut self) -> ReplicaWait {
        poll_fn(|context| {
            if let Some(answer) = self.ready() {
                return Poll::Ready(answer);
            }
            if let Some(id) = self.waker_id.take() {
                self.engine.view.wakers.deregister(id);
            }
            let next = self.position().max(self.tried).plus(1);
            let wakers = &self.engine.view.wakers;
            wakers.register(next.0, &mut self.waker_id, context.waker());
            if planted!("replica-looks-once") {
                return Poll::Pending;
            }
            match self.ready() {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            self.engine.view.wakers.deregister(id);
        }
        self.engine
            .replica_ended(self.id, "it was dropped without a reason".to_owned());
    }
}

impl std::fmt::Debug for Replication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replication")
            .field("position", &self.position())
            .field("confirmed", &self.engine.view.replicated.lsn())
            .finish_non_exhaustive()
    }
}
