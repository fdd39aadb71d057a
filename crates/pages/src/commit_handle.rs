//! A commit that was submitted.

use crate::dispatch::Pending;
use crate::error::Result;
use crate::types::Acknowledged;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A submitted commit: its place in the order is decided, and it gets durable as its policy says,
/// whether or not somebody waits. Wait for it in a thread, poll it, or await it on any runtime.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing for the commit.
#[must_use = "whether the commit became durable is known by waiting for it"]
pub struct CommitHandle {
    pending: Pending,
}

impl CommitHandle {
    pub(crate) fn new(pending: Pending) -> Self {
        CommitHandle { pending }
    }

    /// The number of the commit.
    pub fn commit(&self) -> u64 {
        self.pending.commit()
    }

    /// Waits in this thread, which may do the writing itself.
    pub fn wait(self) -> Result<Acknowledged> {
        self.pending.wait()
    }
}

impl Future for CommitHandle {
    type Output = Result<Acknowledged>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.pending.poll(context.waker()) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for CommitHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitHandle")
            .field("commit", &self.commit())
            .finish_non_exhaustive()
    }
}
