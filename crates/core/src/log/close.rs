//! Closing a log: forces everything, ends its threads, releases the lock.

use crate::background::stats_writer::StatsWriter;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Handle;
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::Wake;
use crate::trace;
use logforce_commit::advisor::Observation;
use logforce_commit::sync::wakers::is_waking;
use logforce_format::planted;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

impl Handle {
    pub(crate) fn close(&self) -> Result<()> {
        let (result, panic) = self.close_catching_panics();
        match panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Closes the log, even if the device panics in this thread. Otherwise the lock would stay held, and a
    /// thread that closes another clone or follows the log would wait forever.
    pub(super) fn close_catching_panics(&self) -> (Result<()>, Option<Box<dyn Any + Send>>) {
        let engine = &self.engine;
        // In a forked child, the threads and the files belong to the parent.
        if let Err(e) = engine.view.check_process() {
            return (Err(e), None);
        }
        if let Err(e) = refuse_in_waker() {
            return (Err(e), None);
        }
        let first = !std::mem::replace(&mut engine.state().lifecycle.closing, true);
        // A backup whose progress callback makes this call ends without using the files again. The close does
        // not wait for it.
        let within = match planted!("close-waits-for-its-caller") {
            true => 0,
            false => engine.calls_within(),
        };
        if !first && (within > 0 || engine.is_writer_thread()) {
            // The first close waits for this callback to return. Waiting for that close here would be a
            // deadlock.
            return (Err(Error::Closed), None);
        }
        if !first {
            return (
                engine.wait_for(|state| state.lifecycle.closed.clone()),
                None,
            );
        }
        let _closing = engine.enter();
        // Appends that wait for buffer or prepared space return an error now.
        engine.wake_blocked(Wake::Space);
        engine.wait_for(|state| (state.lifecycle.file_changes <= within).then_some(()));
        let (result, mut panic) = match catch_unwind(AssertUnwindSafe(|| engine.finish())) {
            Ok(result) => (result, None),
            Err(panic) => (Err(engine.unwound("close")), Some(panic)),
        };
        // The next steps call foreign code: the advisor, the lock, wakers, tracing. The caller gets the
        // first panic, but only after the lock is released and the other closers have returned.
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
        if engine.membership.is_some() {
            run(&mut || finish_tasks(engine));
        }
        let threads = std::mem::take(&mut *engine.threads());
        for (thread, is_writer) in threads.into_iter().zip([true, false]) {
            if is_writer && engine.is_writer_thread() {
                // A callback closes the log in the writer thread, which cannot join itself. It makes no
                // more I/O after this.
                continue;
            }
            // A panic in the thread has poisoned the log, which `finish` has reported.
            let _ = thread.join();
        }
        // If the log has failed, a committer may still be writing.
        if !planted!("running-not-joined-before-unlock") {
            engine.wait_for(|state| (state.pipeline.jobs.running == 0).then_some(()));
        }
        if result.is_ok() {
            run(&mut || report_to_advisor(engine));
        }
        // All I/O is joined, so another opening may take the lock now.
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
        let is_own = self.engine.is_own_thread() || is_waking();
        if is_own && !self.engine.state().lifecycle.closing {
            // A callback or a woken task has dropped the last clone. This thread may be in the middle of a
            // job, or of a call for which others wait, and cannot wait for itself.
            let engine = self.engine.clone();
            let close = move || drop(Handle { engine });
            let runtime = self.engine.view.runtime.clone();
            // If no thread can be started, the log stays open until the process ends.
            let _ = runtime.spawn("logforce-close", Box::new(close));
            return;
        }
        // A drop cannot return a panic of the device. The panic hook has reported it.
        let _ = self.close_catching_panics();
    }
}

/// Ends the tasks of a log in an environment. The calling thread runs their last step, so that it does not
/// wait for a thread of the pool. It may itself be the only thread of the pool.
fn finish_tasks(engine: &Arc<Engine>) {
    let (writer, preallocator) = (&engine.events.writer, &engine.events.preallocator);
    if let Some(task) = preallocator.task() {
        task.finish();
    }
    // In a callback of this log, the writer's step is in progress and ends after the callback.
    if let Some(task) = writer.task()
        && !engine.is_writer_thread()
        && task.finish()
    {
        let _own = engine.adopt_writer_thread();
        engine.end_writer(&mut StatsWriter::default());
    }
}

/// Reports the measurements of this opening to the advisor, if there is one.
fn report_to_advisor(engine: &Engine) {
    let (forces, p50) = engine.metrics.unit_forces();
    let seen = Observation {
        method: engine.config.force.method,
        forces,
        p50,
    };
    let options = &engine.config.options;
    let choice = options.method_choice(&engine.view.dir, engine.runtime());
    choice.observe(engine.config.unit, seen);
}
