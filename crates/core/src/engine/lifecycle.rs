//! Failing and closing of a log.

use crate::engine::Engine;
use crate::engine::own_threads::Within;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::sync::wake::{WaitFor, Wake};
use crate::sync::wakers::refuse_in_waker;
use crate::trace;
use logforce_device::Displacement;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A truncation, a change of the metadata or a backup in progress.
pub(crate) struct FileChange<'a> {
    engine: &'a Engine,
    _within: Within,
}

impl Drop for FileChange<'_> {
    fn drop(&mut self) {
        self.engine.state().lifecycle.file_changes -= 1;
        let progress = &self.engine.events.progress;
        progress.notify(self.engine.runtime(), Wake::TruncationDone);
    }
}

impl FileChange<'_> {
    /// Fails if a callback of this change has closed the log. The files then belong to the next opening.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.engine.state().lifecycle.closed {
            Some(_) => Err(Error::Closed),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Registers a truncation, a change of the metadata or a backup. A close waits for it, unless the change
    /// itself calls the close. None begins after a close, because the files then belong to the next opening.
    pub(crate) fn begin_file_change(&self) -> Result<FileChange<'_>> {
        refuse_in_waker()?;
        self.check()?;
        let mut state = self.state();
        if state.lifecycle.closing {
            return Err(Error::Closed);
        }
        state.lifecycle.file_changes += 1;
        drop(state);
        Ok(FileChange {
            engine: self,
            _within: self.enter(),
        })
    }

    /// Forces everything, writes the last stamp, and marks the control file as clean.
    pub(crate) fn finish(&self) -> Result<()> {
        loop {
            let seen = self.events.progress.observe();
            // A failed log writes no stamp: with everything durable, the loop would wait for one
            // for ever.
            self.poison.check()?;
            let tail = self.state().tail();
            self.wait_until(tail, WaitLevel::Force)?;
            // Under a weak method the durable LSN may be ahead of any barrier, and a stamp of it
            // would be false: so a barrier first.
            self.wait_until(tail, WaitLevel::Barrier)?;
            let lacks_stamp = || {
                let state = self.state();
                state.pipeline.lacks_stamp() && state.has_space_for_empty_batch()
            };
            if !lacks_stamp() {
                break;
            }
            if !self.write_stamp(true)? && lacks_stamp() {
                // The writer thread is writing one.
                self.wait_for_progress(seen, WaitFor::Stamp);
            }
        }
        let tail = self.state().tail();
        self.wait_until(tail, WaitLevel::Barrier)?;
        self.update_control(|c| c.clean = c.anchor.lsn == tail)
    }
}

impl Engine {
    /// Fails the log if it is no longer where it was opened.
    pub(crate) fn check_location(&self) -> Result<()> {
        self.poison.check()?;
        match self.location.displaced(&self.view, self.durable()) {
            Some(displaced) => Err(self.fail(Error::displaced(displaced))),
            None => Ok(()),
        }
    }

    /// Poisons the log, drops staged batches, wakes all waiting threads and tasks.
    pub(crate) fn fail(&self, cause: Error) -> Error {
        // A log whose files are closed while it is idle finds nothing where it was moved away.
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

    /// Fails the log because a thread panicked during I/O: what the device did is unknown.
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

impl Error {
    pub(super) fn displaced(Displacement { path, found }: Displacement) -> Error {
        Error::Displaced { path, found }
    }
}
