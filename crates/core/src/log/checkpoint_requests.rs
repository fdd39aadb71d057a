//! Requests for checkpoints. The log makes them before it reaches its cap, and its owner takes them.

use crate::read::view::View;
use crate::sync::wake::WaitFor;
use crate::types::CheckpointDue;
use futures_core::Stream;
use logforce_commit::sync::wakers::{WakerId, is_waking};
use logforce_format::planted;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Requests for checkpoints of a log, from [`Log::checkpoint_requests`](crate::Log::checkpoint_requests).
///
/// They end when the log is closed or has failed. This value does not keep the log open. If a log has
/// several, only one of them gets each request.
pub struct CheckpointRequests {
    view: Arc<View>,
    waker_id: Option<WakerId>,
}

impl CheckpointRequests {
    pub(crate) fn new(view: &Arc<View>) -> CheckpointRequests {
        CheckpointRequests {
            view: view.clone(),
            waker_id: None,
        }
    }

    /// Returns a request, or `Some(None)` at the end; `None` if there is neither yet.
    fn answer(&self) -> Option<Option<CheckpointDue>> {
        let view = &self.view;
        // A forked child has no thread that could make a request.
        if view.ended().is_some() || view.check_process().is_err() {
            return Some(None);
        }
        let due = view.pending_checkpoint().take()?;
        let durable = view.durable();
        Some(Some(CheckpointDue {
            front: view.front(),
            durable,
            // A request to truncate as far as possible reaches further by now.
            truncate_to: match due.truncate_to == due.durable {
                true => durable,
                false => due.truncate_to,
            },
            ..due
        }))
    }

    /// Returns the request if there is one now. Returns `None` after the end as well.
    pub fn try_next(&mut self) -> Option<CheckpointDue> {
        self.answer().flatten()
    }

    /// Waits for a request. Returns `None` once the log is closed or has failed. In a waker, which must not
    /// wait, this behaves like [`CheckpointRequests::try_next`].
    pub fn next_blocking(&mut self) -> Option<CheckpointDue> {
        loop {
            let seen = self.view.checkpoint.made.observe();
            if let Some(answer) = self.answer() {
                return answer;
            }
            if is_waking() {
                return None;
            }
            let made = &self.view.checkpoint.made;
            made.wait(&*self.view.runtime, seen, None, WaitFor::CheckpointDue);
        }
    }

    /// Waits like [`CheckpointRequests::next_blocking`], in a task. The implementation of
    /// `futures_core::Stream` does the same.
    ///
    /// **Cancel safe.** If the future is dropped before it has completed, it has taken no request.
    pub async fn next(&mut self) -> Option<CheckpointDue> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for CheckpointRequests {
    type Item = CheckpointDue;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<CheckpointDue>> {
        let this = &mut *self;
        if let Some(answer) = this.answer() {
            return Poll::Ready(answer);
        }
        let tasks = &this.view.checkpoint.tasks;
        tasks.register(0, &mut this.waker_id, context.waker());
        if planted!("recheck-checkpoint-after-register") {
            return Poll::Pending;
        }
        match this.answer() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for CheckpointRequests {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            self.view.checkpoint.tasks.deregister(id);
        }
    }
}

impl std::fmt::Debug for CheckpointRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointRequests")
            .field("path", &self.view.path)
            .finish_non_exhaustive()
    }
}
