use crate::error::{Error, Result};
use crate::read::divergence::{Compared, check_log};
use crate::read::history::{History, Position};
use crate::read::position::FollowerPosition;
use crate::read::reader::Reader;
use crate::read::view::View;
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::WaitFor;
use crate::types::Record;
use futures_core::Stream;
use logforce_commit::sync::event::Event;
use logforce_commit::sync::wakers::{WakerId, Wakers};
use logforce_format::{Lsn, planted};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Reads a log's records as they become durable, in the process that writes it. It never returns a
/// record that is not durable, and does not block the writer.
///
/// Besides records it returns these errors, each once:
/// - [`Error::Voided`](crate::Error::Voided) when `truncate_back` has voided records that it had
///   returned, or that lie below its starting position. It continues after them.
/// - [`Error::Truncated`](crate::Error::Truncated) when `truncate_front` has passed it. It ends.
/// - The log's failure, after every durable record. It ends.
/// - Others, such as [`Error::Io`](crate::Error::Io). Each of them ends it.
pub struct Follower {
    view: Arc<View>,
    reader: Reader,
    position: FollowerPosition,
    waker_id: Option<WakerId>,
    /// True if it waits for the replicated LSN instead of the durable one.
    replicated: bool,
    ended: bool,
}

impl Follower {
    /// Creates a follower that starts at an LSN that the log has returned.
    pub(crate) fn from_lsn(compared: Compared<'_>, from: Lsn) -> Result<Follower> {
        let reader = Reader::from_boundary(compared.view.clone(), from)?;
        let history = compared.history_below(from)?;
        Ok(Follower::new(compared.view, reader, from, history))
    }

    /// Creates a follower that starts at a stored position.
    pub(crate) fn from_position(compared: Compared<'_>, from: &Position) -> Result<Follower> {
        let (view, lsn) = (compared.view, from.lsn());
        check_log(from, &view.path, view.log_id)?;
        let front = view.front();
        if lsn < front {
            return Err(Error::Truncated { lsn, front });
        }
        // The position may come from a follower that reads the files. A stamp proved it durable to that
        // follower before this handle has seen it.
        let is_ahead = lsn > compared.end && from.epoch() == Some(compared.epoch);
        let covering = view.voids().covering(lsn);
        if !is_ahead && covering.is_none_or(|(start, _)| start == lsn) {
            compared.check(from)?;
        }
        // A void range starts here, and none of its records was returned: continues at the range's end.
        let behind = covering.filter(|(start, _)| *start == lsn);
        let reader = Reader::from_boundary(view.clone(), behind.map_or(lsn, |(_, to)| to))?;
        Ok(Follower::new(view, reader, lsn, from.history().clone()))
    }

    fn new(view: &Arc<View>, reader: Reader, from: Lsn, history: History) -> Follower {
        Follower {
            view: view.clone(),
            reader: reader.with_history(history),
            position: FollowerPosition::below(from),
            waker_id: None,
            replicated: false,
            ended: false,
        }
    }

    /// Makes the follower return only records that the log's replica has confirmed
    /// ([`Log::replicate`](crate::Log::replicate)). What it returns survives the loss of this machine. While
    /// no replica is attached, it returns nothing new. When the log is closed, it ends at the replicated LSN
    /// of that moment.
    pub fn replicated(mut self) -> Follower {
        self.deregister();
        self.reader.stop_at_replicated();
        self.replicated = true;
        self
    }

    fn deregister(&mut self) {
        if let Some(id) = self.waker_id.take() {
            self.advanced().1.deregister(id);
        }
    }

    /// Returns the event and the tasks that are notified when the follower may continue.
    fn advanced(&self) -> (&Event, &Wakers) {
        match self.replicated {
            true => (&self.view.replicated.advanced, &self.view.replicated.tasks),
            false => (&self.view.advanced, &self.view.wakers),
        }
    }

    /// Returns the next record if it is durable; otherwise, and after the end, `Ok(None)`.
    pub fn try_next(&mut self) -> Result<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        let voided = self.position.voided(&self.view.voids());
        if let Some(e) = voided {
            return Err(e);
        }
        loop {
            match self.reader.next() {
                None => return Ok(None),
                Some(Err(e)) => {
                    self.ended = true;
                    return Err(e);
                }
                Some(Ok(record)) => {
                    // Skips records that were voided after they were read ahead.
                    let voided = self.view.voids().covering(record.start);
                    if voided.is_none() {
                        self.position.note(record.start, record.end);
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    /// Returns the next result, if there is one: a record, an error, or the end.
    fn answer(&mut self) -> Option<Option<Result<Record>>> {
        // Reads the end first. Otherwise records that became durable just before it would be missed.
        let end = self.view.ended();
        match self.try_next() {
            Ok(Some(record)) => Some(Some(Ok(record))),
            Err(e) => Some(Some(Err(e))),
            Ok(None) if self.ended => Some(None),
            Ok(None) => {
                let end = end?;
                self.ended = true;
                Some(end.map(Err))
            }
        }
    }

    /// Waits until the next record is durable. Returns `None` after the end: the log is closed or has
    /// failed, and every record was returned.
    pub fn next_blocking(&mut self) -> Option<Result<Record>> {
        loop {
            let seen = self.advanced().0.observe();
            if let Some(answer) = self.answer() {
                return answer;
            }
            if let Err(e) = refuse_in_waker() {
                return Some(Err(e));
            }
            let runtime = &*self.view.runtime;
            self.advanced()
                .0
                .wait(runtime, seen, None, WaitFor::NextRecord);
        }
    }

    /// Waits as [`Follower::next_blocking`] does, but returns `Ok(None)` when `timeout` has passed
    /// without a record, and after the end.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let began = self.view.runtime.now();
        loop {
            let seen = self.advanced().0.observe();
            if let Some(answer) = self.answer() {
                return answer.transpose();
            }
            let passed = self.view.runtime.now().saturating_sub(began);
            let left = timeout.saturating_sub(passed);
            if left.is_zero() {
                return Ok(None);
            }
            refuse_in_waker()?;
            let runtime = &*self.view.runtime;
            self.advanced()
                .0
                .wait(runtime, seen, Some(left), WaitFor::NextRecord);
        }
    }

    /// Waits as [`Follower::next_blocking`] does, but as a future. The implementation of
    /// `futures_core::Stream` does the same.
    ///
    /// **Cancel safe.** A future that is dropped before it has completed has consumed nothing: the next
    /// call returns the same record.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the follower's position. Every durable record below it was returned, or was voided, or
    /// lies below the starting position. A follower that starts here, even after a restart, skips
    /// nothing and returns nothing twice. Once the follower has caught up, the position is
    /// [`Log::durable_lsn`](crate::Log::durable_lsn).
    ///
    /// The position may move back over padding, to the end of the last record, while an append has been
    /// read only in part. No record lies in between.
    pub fn position(&self) -> Position {
        self.reader.position_at(self.lsn())
    }

    fn lsn(&self) -> Lsn {
        self.position.end().max(self.reader.consumed_to())
    }

    /// Returns the number of bytes of log that it may return and has not returned yet: 0 once the follower
    /// has caught up.
    pub fn lag(&self) -> u64 {
        self.reader.limit().0.saturating_sub(self.lsn().0)
    }

    /// Returns true once the follower has ended: it will return nothing more.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

impl Stream for Follower {
    type Item = Result<Record>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Record>>> {
        let this = &mut *self;
        if let Some(answer) = this.answer() {
            return Poll::Ready(answer);
        }
        // A registration is for a single LSN: the next one that is not durable.
        this.deregister();
        let next = this.reader.limit().plus(1);
        let mut id = None;
        this.advanced().1.register(next.0, &mut id, context.waker());
        this.waker_id = id;
        if planted!("recheck-follower-after-register") {
            return Poll::Pending;
        }
        match this.answer() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("position", &self.lsn())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
