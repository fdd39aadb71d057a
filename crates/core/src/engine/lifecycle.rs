//! What a close waits for, and the last force.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::policy::SyncLevel;
use crate::sync::wake::{WaitFor, Wake};

/// A truncation under way, or a change of the metadata.
pub(crate) struct Truncation<'a>(&'a Engine);

impl Drop for Truncation<'_> {
    fn drop(&mut self) {
        self.0.state().lifecycle.truncating -= 1;
        let progress = &self.0.events.progress;
        progress.notify(self.0.runtime(), Wake::TruncationDone);
    }
}

impl Engine {
    /// Registers a truncation, or a change of the metadata: a close waits for it, and after a close
    /// there is none. It would write to files that are another opening's by then.
    pub(crate) fn begin_truncation(&self) -> Result<Truncation<'_>> {
        self.check()?;
        let mut state = self.state();
        if state.lifecycle.closing {
            return Err(Error::Closed);
        }
        state.lifecycle.truncating += 1;
        Ok(Truncation(self))
    }

    /// Forces everything, writes the last stamp, and notes in the control file that nothing lies
    /// above.
    pub(crate) fn finish(&self) -> Result<()> {
        loop {
            let seen = self.events.progress.observe();
            // Else, with all durable, it would wait for a stamp that nobody will write.
            self.poison.check()?;
            let tail = self.state().tail();
            self.wait_until(tail, SyncLevel::Force)?;
            // A stamp about what a weak method left behind would not be true: a barrier first.
            self.wait_until(tail, SyncLevel::Barrier)?;
            let lacks_stamp = || {
                let state = self.state();
                state.pipeline.lacks_stamp() && state.has_space_for_mark()
            };
            if !lacks_stamp() {
                break;
            }
            if !self.write_stamp(true)? && lacks_stamp() {
                // The writer thread's own is under way.
                self.wait_for_progress(seen, WaitFor::Stamp);
            }
        }
        let tail = self.state().tail();
        self.wait_until(tail, SyncLevel::Barrier)?;
        self.update_control(|c| c.clean = c.anchor.lsn == tail)
    }
}
