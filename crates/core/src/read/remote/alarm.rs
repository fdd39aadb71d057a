//! Wakes a task after a pause. A follower in another process is told of nothing and has to look again,
//! and a log knows no async runtime's timer; so it has a thread for that, from the first time that a
//! task waits.

use crate::sync::event::Event;
use crate::sync::wake::{WaitFor, Wake};
use crate::sync::wakers::wake;
use logforce_device::Runtime;
use logforce_device::sync::Mutex;
use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// The thread that wakes one task at a time; it ends when this is dropped.
pub(super) struct Alarm {
    shared: Arc<Shared>,
    runtime: Arc<dyn Runtime>,
}

#[derive(Default)]
struct Shared {
    changed: Event,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whom to wake, and when by the runtime's clock.
    next: Option<(Waker, Duration)>,
    ends: bool,
}

impl Shared {
    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run(&self, runtime: &dyn Runtime) {
        loop {
            let seen = self.changed.observe();
            let now = runtime.now();
            let (ends, due, wait) = self.with_state(|state| match &state.next {
                Some((_, at)) if *at <= now => (state.ends, state.next.take(), None),
                Some((_, at)) => (state.ends, None, Some(at.saturating_sub(now))),
                None => (state.ends, None, None),
            });
            if ends {
                return;
            }
            match due {
                Some((waker, _)) => wake(waker),
                None => self.changed.wait(runtime, seen, wait, WaitFor::Alarm),
            }
        }
    }
}

impl Alarm {
    /// Starts the thread.
    pub(super) fn start(runtime: Arc<dyn Runtime>) -> io::Result<Alarm> {
        let shared: Arc<Shared> = Arc::default();
        let (of_thread, clock) = (shared.clone(), runtime.clone());
        // Not joined: the last task that it wakes may be the one that drops this.
        drop(runtime.spawn("logforce-follow", Box::new(move || of_thread.run(&*clock)))?);
        Ok(Alarm { shared, runtime })
    }

    /// Wakes this task after `pause`, and no other that was named before.
    pub(super) fn wake_after(&self, pause: Duration, waker: &Waker) {
        let at = self.runtime.now().saturating_add(pause);
        let next = Some((waker.clone(), at));
        let before = (self.shared).with_state(|state| std::mem::replace(&mut state.next, next));
        // Without the mutex: dropping it may run the executor's code.
        drop(before);
        self.shared.changed.notify(&*self.runtime, Wake::AlarmSet);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let dropped = self.shared.with_state(|state| {
            state.ends = true;
            state.next.take()
        });
        drop(dropped);
        self.shared.changed.notify(&*self.runtime, Wake::AlarmSet);
    }
}
