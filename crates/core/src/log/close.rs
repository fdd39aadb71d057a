//! The end of a log: everything forced, its threads ended, the lock given up.

use crate::advisor::{Observation, Question};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Handle;
use crate::sync::wake::Wake;
use crate::trace;
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
        let engine = &self.engine;
        // The threads are the parent's, and so are the files.
        if let Err(e) = engine.view.check_process() {
            return (Err(e), None);
        }
        let first = !std::mem::replace(&mut engine.state().lifecycle.closing, true);
        if !first && (engine.closes_around_itself() || engine.is_writer_thread()) {
            // Whoever closes waits for the callback to end, and this is a callback.
            return (Err(Error::Closed), None);
        }
        if !first {
            return (
                engine.wait_for(|state| state.lifecycle.closed.clone()),
                None,
            );
        }
        // Appends that wait for room or space must answer now.
        engine.wake_blocked(Wake::Space);
        engine.wait_for(|state| (state.lifecycle.truncating == 0).then_some(()));
        let (result, mut panic) = match catch_unwind(AssertUnwindSafe(|| engine.finish())) {
            Ok(result) => (result, None),
            Err(panic) => (Err(engine.unwound("close")), Some(panic)),
        };
        // What follows runs code of others: the advisor, the lock's, who is woken, who traces. The
        // first panic is the caller's, but only once the lock is given up and the others are told.
        let mut run = |step: &mut dyn FnMut()| {
            if let Err(unwound) = catch_unwind(AssertUnwindSafe(step)) {
                panic.get_or_insert(unwound);
            }
        };
        engine.stop.store(true, Release);
        engine.state().lifecycle.stopping = true;
        let (events, runtime) = (&engine.events, engine.runtime());
        events.writer.notify(runtime, Wake::ClosingWriter);
        events
            .preallocator
            .notify(runtime, Wake::ClosingPreallocator);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for (thread, is_writer) in threads.into_iter().zip([true, false]) {
            if is_writer && engine.is_writer_thread() {
                // Closed by a callback, or by the drop of what one held: it cannot wait for its
                // own end. It does no more I/O after this.
                continue;
            }
            // A panic in it has poisoned the log, which `finish` has reported or nobody waits for.
            let _ = thread.join();
        }
        // Only now: the preparing thread would start another one.
        run(&mut || engine.join_checkpoint());
        // A committer may still be writing, if the log has failed elsewhere.
        if !planted!("running-not-joined-before-unlock") {
            engine.wait_for(|state| (state.pipeline.leader.running == 0).then_some(()));
        }
        if result.is_ok() {
            run(&mut || report(engine));
        }
        // All I/O is joined: only now may another writer come.
        let mut lock = engine
            .files
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        run(&mut || drop(lock.take()));
        run(&mut || {
            let why = result.as_ref().err().cloned();
            engine.view.end(why, Wake::ClosedReaders);
        });
        run(&mut || trace::closed(engine.durable()));
        engine.state().lifecycle.closed = Some(result.clone());
        events.progress.notify(runtime, Wake::Closed);
        (result, panic)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.engine.is_own_thread() && !self.engine.state().lifecycle.closing {
            // The last clone went with a callback, or with a task that was woken: this thread may
            // be in the middle of a job, and cannot wait for itself.
            let engine = self.engine.clone();
            let threads =
                std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
            let close = move || {
                drop(Handle {
                    engine,
                    threads: Mutex::new(threads),
                });
            };
            let runtime = self.engine.view.runtime.clone();
            // If no thread can be had, the log stays open until the process ends.
            let _ = runtime.spawn("logforce-close", Box::new(close));
            return;
        }
        // The panic hook has shown what the device has to say; a drop has nobody to hand it to.
        let _ = self.close_whole();
    }
}

/// Tells the advisor, if one is to be asked at all, what an opening saw.
fn report(engine: &Engine) {
    let (Some(advisor), Ok(facts)) = (
        engine.config.options.advisor_to_ask(),
        engine.view.dir.facts(),
    ) else {
        return;
    };
    let (forces, p50) = engine.metrics.unit_forces();
    let question = Question {
        dir: &engine.view.dir,
        runtime: engine.runtime(),
        facts: &facts,
        write_unit: engine.config.unit,
        require: engine.config.options.require,
        cache: engine.config.options.calibration_cache.as_deref(),
    };
    advisor.observe(
        &question,
        Observation {
            method: engine.config.forcing.method,
            forces,
            p50,
        },
    );
}
