//! The end of a log that failed: the first failure poisons it, and everybody is woken.

use crate::engine::Engine;
use crate::error::Error;
use crate::sync::wake::Wake;
use crate::trace;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl Engine {
    /// Records the failure, drops what waits, wakes everybody.
    pub(crate) fn fail(&self, cause: Error) -> Error {
        let error = self.poison.set(cause);
        if !self.metrics.failed.swap(true, Relaxed) {
            trace::poisoned(&error);
        }
        self.state().buffer.discard();
        let (events, runtime) = (&self.events, self.runtime());
        events.next_leader.notify(runtime, Wake::FailedLeader);
        events.jobs.notify_all(runtime, Wake::FailedJobs);
        self.wake_blocked(Wake::FailedSpace);
        events.writer.notify(runtime, Wake::FailedWriter);
        events
            .preallocator
            .notify(runtime, Wake::FailedPreallocator);
        events.written_tasks.wake_all(Wake::FailedTasks);
        self.view.end(Some(error.clone()), Wake::FailedReaders);
        error
    }

    /// Fails the log because a thread unwound in the middle of it: what the device did of what it
    /// was asked for is not known.
    pub(crate) fn unwound(&self, doing: &'static str) -> Error {
        self.fail(Error::Io {
            doing,
            path: self.view.path.clone(),
            source: Arc::new(std::io::Error::other("the thread that was at it panicked")),
        })
    }

    /// Runs what must not be left half done: if it unwinds, the log has failed.
    pub(crate) fn whole<T>(&self, doing: &'static str, body: impl FnOnce() -> T) -> T {
        struct Half<'a>(&'a Engine, &'static str);
        impl Drop for Half<'_> {
            fn drop(&mut self) {
                self.0.unwound(self.1);
            }
        }
        let half = Half(self, doing);
        let done = body();
        std::mem::forget(half);
        done
    }
}
