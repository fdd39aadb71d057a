//! Handle of a submitted commit.

use crate::dispatch::Pending;
use crate::error::Result;
use crate::types::Acknowledged;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Submitted commit. Its position in the commit order is decided, and it becomes durable as its policy says,
/// even if no thread waits for it. Wait for it in a thread, poll it, or await it on any runtime.
///
/// **Cancel safe.** Dropping it, polled or not, changes nothing for the commit.
#[must_use = "wait for the commit to learn if it became durable"]
pub struct CommitHandle {
    pending: Pending,
}

impl CommitHandle {
    pub(crate) fn new(pending: Pending) -> Self {
        CommitHandle { pending }
    }

    /// Returns the number of the commit.
    pub fn commit(&self) -> u64 {
        self.pending.commit()
    }

    /// Blocks until the commit has what its policy promises. The calling thread may do the writing itself.
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
