//! Failure of a log.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::sync::wake::Wake;
use crate::trace;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl Engine {
    /// Fails the log if its files were moved, deleted or replaced since they were opened.
    pub(crate) fn check_location(&self) -> Result<()> {
        self.poison.check()?;
        match self.location.displaced(&self.view, self.durable()) {
            Some(displaced) => Err(self.fail(Error::displaced(displaced))),
            None => Ok(()),
        }
    }

    /// Poisons the log, drops the staged batches, and wakes all waiting threads and tasks.
    pub(crate) fn fail(&self, cause: Error) -> Error {
        // An idle log in an environment has closed its files. If its directory was moved meanwhile, opening
        // them fails with "not found": reports the displacement instead.
        let cause = match cause
            .is_not_found()
            .then(|| self.location.displaced(&self.view, self.durable()))
            .flatten()
        {
            Some(displaced) => Error::displaced(displaced),
            None => cause,
        };
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

    /// Fails the log because a thread panicked during I/O, whose effect is unknown.
    pub(crate) fn unwound(&self, doing: &'static str) -> Error {
        self.fail(Error::Io {
            doing,
            path: self.view.path.clone(),
            source: Arc::new(std::io::Error::other("the thread that did it panicked")),
        })
    }

    /// Runs a change that must not be left half done: a panic in it fails the log.
    pub(crate) fn poison_on_panic<T>(&self, doing: &'static str, body: impl FnOnce() -> T) -> T {
        struct UnwindGuard<'a>(&'a Engine, &'static str);
        impl Drop for UnwindGuard<'_> {
            fn drop(&mut self) {
                self.0.unwound(self.1);
            }
        }
        let guard = UnwindGuard(self, doing);
        let done = body();
        std::mem::forget(guard);
        done
    }
}
