//! Reserving space for a record before it exists: for tasks, which must not block, and which decide the
//! order of their records.

use crate::batch::Append;
use crate::engine::Engine;
use crate::engine::append::Space;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::handles::CommitHandle;
use crate::policy::Policy;
use crate::state::frames_len;
use crate::types::Acknowledged;
use logforce_commit::sync::wakers::WakerId;
use logforce_format::planted;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Space in the log for one append; see [`Log::reserve`]. Dropping it gives the space back.
///
/// No other append can use the space. Hold the permit while you create the record, but not while you wait
/// for another thread or task. A leaked permit ([`std::mem::forget`]) keeps its space forever, and later
/// commits wait for it.
#[must_use = "dropping it gives the space back"]
pub struct Permit {
    engine: Arc<Engine>,
    /// Bytes of frames that are promised; 0 once they are used.
    promised: usize,
}

/// Waits for the space of a [`Permit`]. Panics if it is polled again after it has completed.
#[must_use = "nothing is reserved before it is polled"]
struct ReserveFuture {
    engine: Arc<Engine>,
    bytes: Result<usize>,
    /// Round of preparing in which this append first requested prepared space.
    first_round: Option<u64>,
    waker_id: Option<WakerId>,
    completed: bool,
}

impl Log {
    /// Commits in a task: waits for space, appends, and returns when the record or
    /// [`Batch`](crate::Batch) is durable. It never blocks, except in a callback of a log: there it does the
    /// work of the thread for which it would wait.
    ///
    /// The record's position is decided when there is space, so two commits at the same time may come in
    /// either order. To decide the order yourself, use [`Log::reserve`].
    ///
    /// **Cancelling.** A future that was dropped before completion may have appended the record or not. With
    /// [`Log::reserve`] and [`Permit::submit`] you know.
    pub async fn commit_async(&self, mut records: impl Append) -> Result<Acknowledged> {
        let (mut first_round, mut len) = (None, 0);
        let engine = self.engine_arc().clone();
        let submitted = records.append_by(|records, placed| {
            len = engine.slices_len(records)?;
            engine.submit_records(records, Space::Now(&mut first_round), Policy::Force, placed)
        });
        let handle = match submitted {
            Err(Error::WouldBlock) => {
                let permit = self.reserve_frames(Ok(len), first_round).await?;
                permit.submit(records, Policy::Force)?
            }
            other => other?,
        };
        handle.await
    }

    /// Reserves space for one record of up to `len` bytes, or for a batch of up to
    /// [`Batch::reserved_bytes`](crate::Batch::reserved_bytes). [`Permit::submit`] uses the space without
    /// waiting. So a task can wait for space first, and then decide the order of its records under an
    /// ordinary lock that it does not hold across an await:
    ///
    /// ```
    /// # use logforce_core::Policy;
    /// # async fn accept(log: &logforce_core::Log, next: &std::sync::Mutex<u64>) -> logforce_core::Result<u64> {
    /// let permit = log.reserve(8).await?; // back-pressure is here
    /// let (id, handle) = {
    ///     let mut next = next.lock().expect("no panic in it");
    ///     let handle = permit.submit(next.to_le_bytes(), Policy::Force)?; // after an error nothing was appended
    ///     *next += 1; // so numbers are in the order of the log, without gaps
    ///     (*next - 1, handle)
    /// };
    /// handle.await?; // durable
    /// # Ok(id)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoSpace`], [`Error::Full`], and those of a log that has failed
    /// or is closed.
    ///
    /// **Cancel safe.** Dropping the future withdraws the request, and gives back the space if it got some.
    pub fn reserve(
        &self,
        len: usize,
    ) -> impl Future<Output = Result<Permit>> + Send + Sync + Unpin + use<> {
        self.reserve_frames(self.reserved_len(len), None)
    }

    /// Reserves space as [`Log::reserve`] does, without waiting.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is no buffer or prepared space now, and those of [`Log::reserve`].
    pub fn try_reserve(&self, len: usize) -> Result<Permit> {
        let promised = self.reserved_len(len)?;
        let engine = self.engine_arc().clone();
        // Round 0: the last failure to prepare a segment counts, however old it is, because this call does
        // not wait for another attempt.
        let reserved = engine.try_reserve(promised, &mut Some(0));
        if let Err(Error::NoSpace { .. } | Error::Full { .. }) = &reserved {
            engine.try_preparing_again();
        }
        reserved.map(|()| Permit { engine, promised })
    }

    /// Returns the number of bytes of frames for an append of `len` bytes.
    fn reserved_len(&self, len: usize) -> Result<usize> {
        let longest = self.engine().config.options.longest_append();
        frames_len(std::iter::once(len), longest)
    }

    fn reserve_frames(&self, bytes: Result<usize>, first_round: Option<u64>) -> ReserveFuture {
        ReserveFuture {
            engine: self.engine_arc().clone(),
            bytes,
            first_round,
            waker_id: None,
            completed: false,
        }
    }
}

impl Future for ReserveFuture {
    type Output = Result<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.completed, "`ReserveFuture` polled after completion");
        let promised = match &this.bytes {
            Ok(bytes) => *bytes,
            Err(e) => {
                this.completed = true;
                return Poll::Ready(Err(e.clone()));
            }
        };
        let mut is_registered = false;
        loop {
            let reserved = this.engine.try_reserve(promised, &mut this.first_round);
            if let Err(Error::WouldBlock) = reserved {
                // True in a callback of the thread that frees the space.
                if this.engine.must_do_it_itself() && this.engine.write_in_own_thread() {
                    continue;
                }
                if std::mem::replace(&mut is_registered, true) {
                    return Poll::Pending;
                }
                let wakers = &this.engine.events.space_tasks;
                wakers.register(0, &mut this.waker_id, context.waker());
                if planted!("recheck-room-after-register") {
                    return Poll::Pending;
                }
                // Tries again: space may have been freed before the waker was registered.
                continue;
            }
            this.completed = true;
            let engine = this.engine.clone();
            return Poll::Ready(reserved.map(|()| Permit { engine, promised }));
        }
    }
}

impl Drop for ReserveFuture {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            self.engine.events.space_tasks.deregister(id);
        }
    }
}

impl Permit {
    /// Appends a record or a [`Batch`](crate::Batch) into the reserved space, without waiting. Returns a
    /// handle that completes when `policy` is met. Gives back the space that the record does not need.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it does not fit the reserved space, and those of a log that has failed
    /// or is closed. Nothing is appended then.
    pub fn submit(mut self, mut records: impl Append, policy: Policy) -> Result<CommitHandle> {
        let engine = self.engine.clone();
        // From here on, the engine gives the space back.
        let space = Space::Promised(std::mem::take(&mut self.promised));
        records.append_by(|records, placed| engine.submit_records(records, space, policy, placed))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // In a forked child, the mutex may stay locked forever.
        if self.promised > 0 && self.engine.view.check_process().is_ok() {
            self.engine.release_reserved(self.promised);
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("promised", &self.promised)
            .finish_non_exhaustive()
    }
}
