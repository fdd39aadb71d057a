use crate::error::{Error, Result};
use crate::read::divergence::{Compared, check_log};
use crate::read::history::{History, Position};
use crate::read::position::FollowerPosition;
use crate::read::reader::Reader;
use crate::read::view::View;
use crate::sync::wake::WaitFor;
use crate::sync::wakers::WakerId;
use crate::sync::wakers::refuse_in_waker;
use crate::types::Record;
use futures_core::Stream;
use logforce_format::{Lsn, planted};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Reads a log's records as they become durable, in the process that writes it. It never returns a
/// record that is not durable, and does not block the writer.
///
/// Besides records it returns, each once: [`Error::Voided`](crate::Error::Voided) when
/// `truncate_back` has voided records that it had returned, or that lie below where it began (it
/// continues after them); [`Error::Truncated`](crate::Error::Truncated) when `truncate_front` has
/// passed it (it ends); the log's failure (it ends, after every durable record).
pub struct Follower {
    view: Arc<View>,
    reader: Reader,
    position: FollowerPosition,
    waker_id: Option<WakerId>,
    ended: bool,
}

impl Follower {
    /// A follower from an LSN that the log has returned.
    pub(crate) fn from_lsn(compared: Compared<'_>, from: Lsn) -> Result<Follower> {
        let reader = Reader::from_boundary(compared.view.clone(), from)?;
        let history = compared.history_below(from)?;
        Ok(Follower::new(compared.view, reader, from, history))
    }

    /// A follower from a stored position.
    pub(crate) fn from_position(compared: Compared<'_>, from: &Position) -> Result<Follower> {
        let (view, lsn) = (compared.view, from.lsn());
        check_log(from, &view.path, view.log_id)?;
        let front = view.front();
        if lsn < front {
            return Err(Error::Truncated { lsn, front });
        }
        // Proven a moment ago to a follower that reads the files: this handle is about to learn of it.
        let is_ahead = lsn > compared.end && from.epoch() == Some(compared.epoch);
        let covering = view.voids().covering(lsn);
        if !is_ahead && covering.is_none_or(|(start, _)| start == lsn) {
            compared.check(from)?;
        }
        // Behind a range that begins with a record: nothing of it was returned.
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
            ended: false,
        }
    }

    /// The next record, if it is durable; otherwise, and after the end, `Ok(None)`.
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
                    // Skips records that were read ahead and voided since.
                    let voided = self.view.voids().covering(record.start);
                    if voided.is_none() {
                        self.position.note(record.start, record.end);
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    /// The next result, if there is one: a record, an error, or the end.
    fn answer(&mut self) -> Option<Option<Result<Record>>> {
        // Read first, so that records that were durable before the end are not missed.
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

    /// Waits until the next record is durable. `None` once it has ended: the log is closed or has
    /// failed, and every record was returned.
    pub fn next_blocking(&mut self) -> Option<Result<Record>> {
        loop {
            let seen = self.view.advanced.observe();
            if let Some(answer) = self.answer() {
                return answer;
            }
            if let Err(e) = refuse_in_waker() {
                return Some(Err(e));
            }
            let view = &self.view;
            view.advanced
                .wait(&*view.runtime, seen, None, WaitFor::NextRecord);
        }
    }

    /// As [`Follower::next_blocking`], but returns `Ok(None)` when `timeout` has passed without a
    /// record, and after the end.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let began = self.view.runtime.now();
        loop {
            let seen = self.view.advanced.observe();
            if let Some(answer) = self.answer() {
                return answer.transpose();
            }
            let passed = self.view.runtime.now().saturating_sub(began);
            let left = timeout.saturating_sub(passed);
            if left.is_zero() {
                return Ok(None);
            }
            refuse_in_waker()?;
            let view = &self.view;
            view.advanced
                .wait(&*view.runtime, seen, Some(left), WaitFor::NextRecord);
        }
    }

    /// As [`Follower::next_blocking`], to await. `futures_core::Stream` is the same.
    ///
    /// **Cancel safe.** If it is dropped before it has completed, it has consumed nothing: the next
    /// call returns the same record.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Its position: every durable record below was returned, or voided, or lies below where it
    /// began. A follower that starts here, also after a restart, skips nothing and returns nothing
    /// twice. Once it has caught up, it is at [`Log::durable_lsn`](crate::Log::durable_lsn).
    /// While a part of an append is read it may stand at the end of the last record again, in front of
    /// padding that it stood behind: no record lies between the two.
    pub fn position(&self) -> Position {
        self.reader.position_at(self.lsn())
    }

    fn lsn(&self) -> Lsn {
        self.position.end().max(self.reader.consumed_to())
    }

    /// How many bytes of the log are durable and were not returned yet: 0 once it has caught up.
    pub fn lag(&self) -> u64 {
        self.view.durable().0.saturating_sub(self.lsn().0)
    }

    /// Whether it has ended: it will return nothing any more.
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
        // A registration is for one LSN: the next that is not durable.
        if let Some(id) = this.waker_id.take() {
            this.view.wakers.deregister(id);
        }
        let next = this.view.durable().plus(1);
        let wakers = &this.view.wakers;
        wakers.register(next, &mut this.waker_id, context.waker());
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
        if let Some(id) = self.waker_id {
            self.view.wakers.deregister(id);
        }
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
