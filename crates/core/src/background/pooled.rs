//! The writer and the preallocator as tasks of a thread pool: for a log in an environment.

use crate::background::writer::{AfterTurn, WriterState};
use crate::engine::Engine;
use crate::engine::membership::Membership;
use crate::sync::pool::{Kind, Next};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum number of turns that a task takes in one step. The tasks of other logs wait meanwhile.
const TURNS: usize = 16;

/// Adds the log's writer and preallocator to the tasks of the environment's pool.
pub(crate) fn start(engine: &Arc<Engine>, membership: &Membership) {
    let pool = &membership.shared.pool;
    let own = engine.clone();
    let mut state = WriterState::new(engine);
    let writer = pool.task(
        Kind::Writer,
        Box::new(move || guarded(&own, |engine| writer_step(engine, &mut state))),
    );
    let own = engine.clone();
    let preallocator = pool.task(
        Kind::Preallocator,
        Box::new(move || guarded(&own, preallocator_step)),
    );
    membership.files.set_writer(writer.clone());
    let own = Arc::downgrade(engine);
    membership.files.set_closer(move || {
        // The log is gone, and its files are closed.
        let Some(engine) = own.upgrade() else {
            return false;
        };
        engine
            .membership
            .as_ref()
            .is_some_and(|membership| engine.close_files(membership))
    });
    engine.events.writer.attach(writer.clone());
    engine.events.preallocator.attach(preallocator.clone());
    writer.schedule();
    preallocator.schedule();
}

/// Runs one step of a task. If it panics, the log fails. Otherwise callers that wait for space or for a
/// submission would wait forever.
fn guarded(engine: &Arc<Engine>, step: impl FnOnce(&Arc<Engine>) -> Next) -> Next {
    catch_unwind(AssertUnwindSafe(|| step(engine))).unwrap_or_else(|_| {
        // The panic hook has reported it.
        engine.unwound("write to");
        let _own = engine.adopt_writer_thread();
        engine.call_back(true);
        Next::Done
    })
}

fn writer_step(engine: &Arc<Engine>, state: &mut WriterState) -> Next {
    let _own = engine.adopt_writer_thread();
    engine.writer_wakes_up();
    for _ in 0..TURNS {
        match engine.writer_turn(state) {
            AfterTurn::Continue => {}
            AfterTurn::Sleep(until) => return Next::Wait(until),
            AfterTurn::Stop => {
                engine.end_writer(state.page());
                return Next::Done;
            }
        }
    }
    Next::Again
}

fn preallocator_step(engine: &Arc<Engine>) -> Next {
    let _own = engine.adopt_thread();
    match engine.preallocator_turn() {
        AfterTurn::Continue => Next::Again,
        AfterTurn::Sleep(until) => Next::Wait(until),
        AfterTurn::Stop => Next::Done,
    }
}
