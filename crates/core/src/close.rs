//! The end of a log: everything forced, its threads ended, the lock given up.

use crate::log::Handle;
use crate::{Error, Result, trace};
use logforce_device::sync::Mutex;
use logforce_format::planted;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;

impl Handle {
    pub(crate) fn close(&self) -> Result<()> {
        let (result, panic) = self.close_whole();
        match panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Closes, also where the device panics in this thread meanwhile: else the lock would be held,
    /// and who closes another clone or follows the log would wait, for ever.
    fn close_whole(&self) -> (Result<()>, Option<Box<dyn Any + Send>>) {
        let shared = &self.shared;
        // The threads are the parent's, and so are the files.
        if let Err(e) = shared.check_process() {
            return (Err(e), None);
        }
        let first = !std::mem::replace(&mut shared.stage().closing, true);
        if !first && (shared.closes_around_itself() || shared.is_served_here()) {
            // Whoever closes waits for the callback to end, and this is a callback.
            return (Err(Error::Closed), None);
        }
        if !first {
            return (shared.wait_for(|stage| stage.closed.clone()), None);
        }
        // Appends that wait for room or space must answer now.
        shared.made_progress();
        shared.wait_for(|stage| (stage.truncating == 0).then_some(()));
        let (result, mut panic) = match catch_unwind(AssertUnwindSafe(|| shared.finish())) {
            Ok(result) => (result, None),
            Err(panic) => (Err(shared.unwound("close")), Some(panic)),
        };
        // What follows runs code of others: the advisor, the lock's, who is woken, who traces. The
        // first panic is the caller's, but only once the lock is given up and the others are told.
        let mut run = |step: &mut dyn FnMut()| {
            if let Err(unwound) = catch_unwind(AssertUnwindSafe(step)) {
                panic.get_or_insert(unwound);
            }
        };
        shared.stop.store(true, Release);
        shared.stage().stopping = true;
        if !planted!("close-wakes-no-writer") {
            shared.work.ring(&*shared.runtime);
        }
        if !planted!("close-wakes-no-preparer") {
            shared.prepare.ring(&*shared.runtime);
        }
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
        run(&mut || shared.join_checkpoint());
        // A committer may still be writing, if the log has failed elsewhere.
        if !planted!("running-not-joined-before-unlock") {
            shared.wait_for(|stage| (stage.line.running == 0).then_some(()));
        }
        if result.is_ok() {
            run(&mut || crate::advisor::report(shared));
        }
        // All I/O is joined: only now may another writer come.
        let mut lock = shared
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        run(&mut || drop(lock.take()));
        run(&mut || {
            if !planted!("close-ends-no-view") {
                shared.view.end(result.as_ref().err().cloned());
            }
        });
        run(&mut || trace::closed(shared.durable()));
        shared.stage().closed = Some(result.clone());
        if !planted!("wake-other-closers") {
            shared.progress.ring(&*shared.runtime);
        }
        (result, panic)
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
        // The panic hook has shown what the device has to say; a drop has nobody to hand it to.
        let _ = self.close_whole();
    }
}
