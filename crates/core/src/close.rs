//! The end of a log: everything forced, the threads joined, the lock given up.

use crate::commit::How;
use crate::log::Shared;
use crate::{Error, Result, trace};
use logforce_device::Joiner;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Ends the threads and closes when the last clone is dropped.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Mutex<Vec<Box<dyn Joiner>>>,
}

impl Shared {
    /// Forces everything, writes the last stamp, and notes in the control file that nothing lies
    /// above.
    fn finish(&self) -> Result<()> {
        loop {
            let seen = self.progress.observe();
            // Else, with all durable, it would wait for a stamp that nobody will write.
            self.poison.check()?;
            let tail = self.stage().tail();
            self.bring(tail, How::Force)?;
            // A stamp about what a weak method left behind would not be true: a barrier first.
            self.bring(tail, How::Barrier)?;
            {
                let stage = self.stage();
                if !stage.line.lacks_stamp() || !stage.has_space_for_mark() {
                    break;
                }
            }
            if !self.write_stamp()? {
                // The service's own is under way.
                self.progress.sleep(&*self.runtime, seen, None);
            }
        }
        let tail = self.stage().tail();
        self.bring(tail, How::Barrier)?;
        self.update_control(|c| c.clean = c.anchor.lsn == tail)
    }

    /// As [`Shared::finish`]. A panic on the way is handed back: the rest of closing must be done
    /// first, or whoever else closes or drops a clone would wait for ever, and the lock be held.
    fn finish_or_fail(&self) -> (Result<()>, Option<Box<dyn Any + Send>>) {
        match catch_unwind(AssertUnwindSafe(|| self.finish())) {
            Ok(result) => (result, None),
            Err(panic) => (Err(self.fail_by_panic("close")), Some(panic)),
        }
    }

    fn fail_by_panic(&self, doing: &'static str) -> Error {
        self.fail(Error::Io {
            doing,
            path: self.path.clone(),
            source: Arc::new(std::io::Error::other("a thread of the log panicked")),
        })
    }
}

/// Fails the log if one of its own threads unwinds: whoever waits for space or for a submission
/// would wait for ever.
pub(crate) struct Watch<'a>(pub(crate) &'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail_by_panic("go on writing");
        }
    }
}

impl Handle {
    pub(crate) fn close(&self) -> Result<()> {
        let shared = &self.shared;
        // The threads are the parent's, and so are the files.
        shared.check_process()?;
        let first = !std::mem::replace(&mut shared.stage().closing, true);
        if !first && (shared.closes_around_itself() || shared.is_served_here()) {
            // Whoever closes waits for the callback to end, and this is a callback.
            return Err(Error::Closed);
        }
        if !first {
            return shared.wait_for(|stage| stage.closed.clone());
        }
        // Appends that wait for room or space must answer now.
        shared.made_progress();
        shared.wait_for(|stage| (stage.truncating == 0).then_some(()));
        let (result, panic) = shared.finish_or_fail();
        shared.stop.store(true, Release);
        shared.stage().stopping = true;
        shared.work.ring(&*shared.runtime);
        shared.prepare.ring(&*shared.runtime);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for (thread, is_service) in threads.into_iter().zip([true, false]) {
            if is_service && shared.is_served_here() {
                // Closed by a callback, or by the drop of what one held: it cannot wait for its
                // own end. It does no more I/O after this.
                continue;
            }
            // A panic in it has poisoned the log, which `finish` has reported or nobody waits for.
            let _ = thread.join();
        }
        // Only now: the preparing thread would start another one.
        shared.join_checkpoint();
        // A committer may still be writing, if the log has failed elsewhere.
        shared.wait_for(|stage| (stage.line.running == 0).then_some(()));
        if result.is_ok() {
            crate::advisor::report(shared);
        }
        // All I/O is joined: only now may another writer come.
        let lock = shared
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(lock);
        shared.view.end(result.as_ref().err().cloned());
        trace::closed(shared.durable());
        shared.stage().closed = Some(result.clone());
        shared.progress.ring(&*shared.runtime);
        match panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.is_own_thread() && !self.shared.stage().closing {
            // The last clone went with a callback, or with a task that was woken: this thread may
            // be in the middle of a job, and cannot wait for itself.
            let shared = self.shared.clone();
            let threads =
                std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
            let close = move || {
                drop(Handle {
                    shared,
                    threads: Mutex::new(threads),
                });
            };
            let runtime = self.shared.runtime.clone();
            // If no thread can be had, the log stays open until the process ends.
            let _ = runtime.spawn("logforce-close", Box::new(close));
            return;
        }
        let _ = self.close();
    }
}
