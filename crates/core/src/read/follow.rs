use crate::error::Result;
use crate::read::reader::Reader;
use crate::read::shown::Shown;
use crate::read::view::View;
use crate::sync::wake::WaitFor;
use crate::sync::wakers::WakerId;
use crate::types::Record;
use logforce_format::{Lsn, planted};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reads a log's records as they become durable, in the process that writes it. Never shows one
/// that is not durable, and does not hold up the writer.
///
/// What it answers besides records, each once: [`Error::Voided`](crate::Error::Voided) when `truncate_back` took back
/// records that it had shown, or that lie below where it began (it goes on behind them), [`Error::Truncated`](crate::Error::Truncated) when `truncate_front`
/// passed it (it ends), the log's failure when the log has failed (it ends, after every durable
/// record).
pub struct Follower {
    view: Arc<View>,
    reader: Reader,
    shown: Shown,
    waker_id: Option<WakerId>,
    ended: bool,
}

impl Follower {
    pub(crate) fn new(view: Arc<View>, reader: Reader, from: Lsn) -> Follower {
        Follower {
            view,
            reader,
            shown: Shown::below(from),
            waker_id: None,
            ended: false,
        }
    }

    /// The next record if there is a durable one; `Ok(None)` if not, or not any more.
    pub fn try_next(&mut self) -> Result<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        let taken_back = self.shown.taken_back(&self.view.voids());
        if let Some(e) = taken_back {
            return Err(e);
        }
        loop {
            match self.reader.next() {
                None => return Ok(None),
                Some(Err(e)) => {
                    self.ended = true;
                    return Err(e);
                }
                Some(Ok(entry)) => {
                    // Read ahead, and taken back since.
                    let voided = self.view.voids().covering(entry.start);
                    if voided.is_none() {
                        self.shown.note(entry.start, entry.end);
                        return Ok(Some(entry));
                    }
                }
            }
        }
    }

    /// One answer, if there is one: a record, an error, or the end.
    fn answer(&mut self) -> Option<Option<Result<Record>>> {
        // First, so that what was durable before the end is not missed.
        let end = self.view.ended();
        match self.try_next() {
            Ok(Some(entry)) => Some(Some(Ok(entry))),
            Err(e) => Some(Some(Err(e))),
            Ok(None) if self.ended => Some(None),
            Ok(None) => {
                let end = end?;
                self.ended = true;
                Some(end.map(Err))
            }
        }
    }

    /// Waits until the next record is durable. `None` when the log was closed and everything was
    /// shown.
    pub fn next_blocking(&mut self) -> Option<Result<Record>> {
        loop {
            let seen = self.view.advanced.observe();
            if let Some(answer) = self.answer() {
                return answer;
            }
            let view = &self.view;
            view.advanced
                .wait(&*view.runtime, seen, None, WaitFor::NextRecord);
        }
    }

    /// As [`Follower::next_blocking`], for a task. After the end it answers `None` again.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Record>>> {
        if let Some(answer) = self.answer() {
            return Poll::Ready(answer);
        }
        // A place is for one LSN: the next that is not durable.
        if let Some(id) = self.waker_id.take() {
            self.view.wakers.deregister(id);
        }
        let next = self.view.durable().plus(1);
        let wakers = &self.view.wakers;
        wakers.register(next, &mut self.waker_id, context.waker());
        if planted!("recheck-follower-after-register") {
            return Poll::Pending;
        }
        match self.answer() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }

    /// As [`Follower::next_blocking`], to await.
    ///
    /// **Cancel safe.** Dropped before it has completed, it has taken nothing: the next call shows
    /// the same record.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| self.poll_next(context)).await
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
            .field("shown", &self.shown.end())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
