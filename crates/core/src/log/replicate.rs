//! The replica of a log: it reads the durable bytes, keeps them elsewhere, and confirms them.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::read::raw::{LogChunk, RawReader};
use crate::sync::wake::WaitFor;
use crate::sync::wakers::{WakerId, refuse_in_waker};
use crate::truncation::pin::{Pin, pin, pin_front};
use logforce_format::{Control, Lsn, planted};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Bytes by which confirmations must advance before the pin follows, and at the end of each segment. To
/// advance the pin, the log looks up a record boundary.
const PIN_STEP: u64 = 1 << 20;

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
    pin: Pin,
    waker_id: Option<WakerId>,
    /// Durable LSN below which everything that is not read belongs to an unfinished atomic append.
    tried: Lsn,
    ended: bool,
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

impl Log {
    /// Attaches a replica to the log: an archive, or another machine. `after` is `None` for a new replica.
    /// Otherwise it is the [control slot](LogChunk::control) of the last chunk that the replica has.
    ///
    /// # Errors
    /// [`Error::ReplicaAttached`] if the log has one; [`Error::Truncated`] if the log was truncated beyond
    /// the end of the replica; [`Error::Diverged`] if this log does not contain what the replica has, or ends
    /// below; [`Error::OtherLog`].
    pub fn replicate(&self, after: Option<&[u8]>) -> Result<Replication> {
        let engine = self.engine_arc();
        engine.check()?;
        let copied = after.map(Control::decode).transpose();
        let copied = copied.map_err(|reject| Error::Option {
            option: "after",
            why: format!("it is not the control slot of a chunk: {reject}"),
        })?;
        // Held before the files are examined, so that no truncation removes them meanwhile.
        let front = pin_front(engine)?;
        let view = engine.view.clone();
        let (reader, pin) = match &copied {
            None => {
                let control = engine.files.control.current();
                (RawReader::from_first_segment(view, &control), front)
            }
            Some(copied) => {
                let end = engine.state().pipeline.anchor;
                let reader = RawReader::after(view, copied, end)?;
                let pin = pin(engine, reader.position())?;
                (reader, pin)
            }
        };
        if !engine.attach_replica() {
            return Err(Error::ReplicaAttached {
                path: engine.view.path.clone(),
            });
        }
        let replication = Replication {
            engine: engine.clone(),
            reader,
            pin,
            waker_id: None,
            tried: Lsn::ORIGIN,
            ended: false,
        };
        if copied.is_some() {
            engine.replica_confirmed(replication.reader.position());
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
    /// Returns the exclusive end of the chunks that were read.
    pub fn position(&self) -> Lsn {
        self.reader.position()
    }

    /// Returns the number of durable bytes that were not read yet.
    pub fn pending(&self) -> u64 {
        self.engine.durable().since(self.position())
    }

    /// Reads the next chunk of durable bytes, of about `max` bytes. It ends between two atomic appends, so a
    /// chunk with a large one is larger: up to 64 MiB more. Returns `None` if there is nothing to read now.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the log is damaged here; [`Error::Truncated`] if the log needed the space and
    /// has dropped what was not read ([`Options::max_pinned_size`](crate::Options::max_pinned_size));
    /// [`Error::Io`]. The next call begins at the same position.
    pub fn read(&mut self, max: u64) -> Result<Option<LogChunk>> {
        let engine = &self.engine;
        engine.view.check_process()?;
        let front = engine.front();
        if self.pin.is_broken() {
            let lsn = self.reader.position();
            return Err(Error::Truncated { lsn, front });
        }
        let limit = engine.durable();
        let control = engine.files.control.current();
        let meta = engine.files.control.meta_bytes();
        let chunk = self.reader.read(&control, meta, limit, max)?;
        if chunk.is_none() {
            self.tried = limit;
        }
        Ok(chunk)
    }

    /// Confirms that everything below `to` is safe in the replica. Chunks are confirmed in order: `to` covers
    /// everything below. An LSN below an earlier one changes nothing.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] above the chunks that were read.
    pub fn confirm(&mut self, to: Lsn) -> Result<()> {
        let end = self.position();
        if to > end {
            return Err(Error::BeyondEnd { lsn: to, end });
        }
        self.engine.replica_confirmed(to);
        if to.since(self.pin.lsn()) >= PIN_STEP {
            // What was confirmed counts, even if the pin cannot follow: a broken pin makes the next read
            // fail, another error only delays a truncation.
            let _ = self.pin.advance(to);
        }
        Ok(())
    }

    /// Ends the replica, because it cannot confirm more. Commits that wait for it get
    /// [`Error::ReplicaLost`] with the reason `why`. The log goes on without a replica.
    pub fn fail(mut self, why: impl Into<String>) {
        self.ended = true;
        self.engine.replica_ended(why.into());
    }

    /// Ends the replica **and the log**, because `by` has taken the log over, elsewhere. From now on the log
    /// accepts nothing. All calls fail with an [`Error::Poisoned`] whose cause is [`Error::Deposed`].
    pub fn deposed(mut self, by: impl Into<String>) -> Error {
        self.ended = true;
        self.engine.deposed(by.into())
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
            let view = self.engine.view.clone();
            if let Some(id) = self.waker_id.take() {
                view.wakers.deregister(id);
            }
            let next = self.position().max(self.tried).plus(1);
            let mut id = None;
            view.wakers.register(next, &mut id, context.waker());
            self.waker_id = id;
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
        // Only if it has not ended: meanwhile another replica may have been attached.
        if !self.ended {
            self.engine
                .replica_ended("it was dropped without a reason".to_owned());
        }
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
