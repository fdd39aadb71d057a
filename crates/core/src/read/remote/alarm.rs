//! A thread that wakes a task after a pause. A follower in another process gets no notifications, so it
//! has to poll, and the log cannot use the timer of an async runtime. The thread starts when a task
//! waits for the first time.

use crate::sync::wake::{WaitFor, Wake};
use logforce_commit::sync::event::Event;
use logforce_commit::sync::wakers::wake;
use logforce_device::Runtime;
use logforce_device::sync::Mutex;
use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Handle of the thread that wakes one task at a time. The thread ends when this is dropped.
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
    /// Task to wake, and the time by the runtime's clock.
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
        // The thread is not joined: the last task that it wakes may be the one that drops this handle.
        drop(runtime.spawn("logforce-follow", Box::new(move || of_thread.run(&*clock)))?);
        Ok(Alarm { shared, runtime })
    }

    /// Wakes this task after `pause`. Replaces the task of an earlier call.
    pub(super) fn wake_after(&self, pause: Duration, waker: &Waker) {
        let at = self.runtime.now().saturating_add(pause);
        let next = Some((waker.clone(), at));
        let before = (self.shared).with_state(|state| std::mem::replace(&mut state.next, next));
        // Drops the old waker without the mutex, because that may run the executor's code.
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
