//! Closing of a log, and the calls for which a close waits.

use crate::engine::Engine;
use crate::engine::own_threads::Within;
use crate::error::{Error, Result};
use crate::policy::WaitLevel;
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::{WaitFor, Wake};

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
    /// itself calls the close. Fails after a close, because the files then belong to the next opening.
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
            // A failed log writes no stamp. Without this check, the loop would wait for one forever if
            // everything is durable.
            self.poison.check()?;
            let tail = self.state().tail();
            self.wait_until(tail, WaitLevel::Force)?;
            // Under a weak method, the durable LSN may be ahead of any barrier. A stamp would then claim
            // too much, so the barrier comes first.
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
