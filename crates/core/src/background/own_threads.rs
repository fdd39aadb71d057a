//! The writer and the preallocator as threads: for a log outside an environment.

use crate::engine::Engine;
use crate::error::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Starts the log's two threads.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    spawn(engine, "logforce-write", Engine::run_writer, true)?;
    spawn(engine, "logforce-prepare", Engine::run_preallocator, false)
}

fn spawn(engine: &Arc<Engine>, name: &str, body: fn(&Arc<Engine>), is_writer: bool) -> Result<()> {
    let own = engine.clone();
    let thread = engine
        .runtime()
        .spawn(name, Box::new(move || run(&own, body, is_writer)))
        .map_err(Error::io("start a thread for", engine.view.path.clone()))?;
    engine.threads().push(thread);
    Ok(())
}

/// Runs one of the log's threads. If it panics, the log fails. Otherwise callers that wait for space or
/// for a submission would wait forever.
fn run(engine: &Arc<Engine>, body: fn(&Arc<Engine>), is_writer: bool) {
    let ended = catch_unwind(AssertUnwindSafe(|| body(engine)));
    if let Err(panic) = ended {
        engine.unwound("write to");
        if is_writer {
            let _own = engine.adopt_writer_thread();
            engine.call_back(true);
        }
        resume_unwind(panic);
    }
}
