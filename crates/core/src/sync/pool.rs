//! Pool of threads that run tasks in steps. The writers and preallocators of many logs run in it.
//!
//! A task runs in one thread at a time. Between two steps it waits until it is scheduled, or until a given
//! time.

use crate::sync::wake::{WaitFor, Wake};
use logforce_commit::sync::event::Event;
use logforce_device::sync::{Mutex, MutexGuard, thread_local};
use logforce_device::{JoinHandle, Runtime};
use logforce_format::planted;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// Action of a task after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Runs another step, after the tasks that wait.
    Again,
    /// Runs a step when it is scheduled, or at this time by the pool's clock.
    Wait(Option<Duration>),
    /// Ends.
    Done,
}

/// A step of a task. It must not panic.
pub(crate) type Step = Box<dyn FnMut() -> Next + Send>;

/// Kind of a task. At least one thread stays available for each kind, because a writer may wait for a
/// preallocator in a callback of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Writer,
    Preallocator,
}

/// Minimum number of threads: one for each kind of task.
pub(crate) const MIN_THREADS: usize = 2;

thread_local! {
    /// True if the calling thread belongs to a pool.
    static IN_POOL: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the calling thread belongs to a pool. Such a thread must not wait for work that only a
/// pool does.
pub(crate) fn is_pool_thread() -> bool {
    IN_POOL.with(Cell::get)
}

/// The threads, and the tasks that wait for one.
pub(crate) struct Pool {
    runtime: Arc<dyn Runtime>,
    state: Mutex<PoolState>,
    /// Event of threads that wait for a task.
    work: Event,
    /// Event of threads that wait for the end of a task's step.
    ended: Event,
}

#[derive(Default)]
struct PoolState {
    max_threads: usize,
    /// Number of threads that were started.
    started: usize,
    threads: Vec<Box<dyn JoinHandle>>,
    /// Number of threads that wait for a task.
    idle: usize,
    /// Time at which an idle thread wakes up for the next timer.
    watch_until: Option<Duration>,
    /// Tasks to run, of each kind.
    queues: [VecDeque<Arc<Task>>; 2],
    /// Number of threads that run a task, of each kind.
    running: [usize; 2],
    /// Tasks that wait for a time.
    timers: BTreeSet<(Duration, TaskPointer)>,
    next_number: u64,
    stopping: bool,
}

/// A task in the set of timers, in the order of numbers.
struct TaskPointer(u64, Weak<Task>);

impl PartialEq for TaskPointer {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for TaskPointer {}

impl PartialOrd for TaskPointer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TaskPointer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Work that a pool repeats.
pub(crate) struct Task {
    pool: Arc<Pool>,
    kind: Kind,
    number: u64,
    /// State, which is locked only under the pool's mutex.
    state: Mutex<TaskState>,
}

struct TaskState {
    phase: Phase,
    /// The step; `None` while it runs.
    step: Option<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits until it is scheduled, or until this time.
    Waiting(Option<Duration>),
    Queued,
    /// A step runs. `again` is true if the task was scheduled meanwhile.
    Running {
        again: bool,
    },
    Done,
}

impl Pool {
    /// Starts a pool of at most `max_threads`. The first two threads start now, the others when there is
    /// work, or a timer, for which no thread is idle.
    pub(crate) fn start(runtime: Arc<dyn Runtime>, max_threads: usize) -> io::Result<Arc<Pool>> {
        let state = PoolState {
            max_threads: max_threads.max(MIN_THREADS),
            started: MIN_THREADS,
            ..PoolState::default()
        };
        let pool = Arc::new(Pool {
            runtime,
            state: Mutex::new(state),
            work: Event::default(),
            ended: Event::default(),
        });
        for _ in 0..MIN_THREADS {
            if let Err(e) = pool.start_thread() {
                pool.stop();
                return Err(e);
            }
        }
        Ok(pool)
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a task that runs its first step when it is scheduled.
    pub(crate) fn task(self: &Arc<Self>, kind: Kind, step: Step) -> Arc<Task> {
        let mut state = self.state();
        state.next_number += 1;
        Arc::new(Task {
            pool: self.clone(),
            kind,
            number: state.next_number,
            state: Mutex::new(TaskState {
                phase: Phase::Waiting(None),
                step: Some(step),
            }),
        })
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.state().started
    }

    /// Returns true if tasks of this kind wait for a thread.
    pub(crate) fn is_busy(&self, kind: Kind) -> bool {
        !self.state().queues[kind as usize].is_empty()
    }

    /// Ends the threads once they are idle. No task may exist any more.
    pub(crate) fn stop(&self) {
        self.state().stopping = true;
        self.work.notify(&*self.runtime, Wake::PoolStops);
    }

    /// Waits for the end of the threads, after [`Pool::stop`]. Returns at once if the caller is one of them.
    pub(crate) fn join(&self) {
        if is_pool_thread() {
            return;
        }
        let threads = std::mem::take(&mut self.state().threads);
        for thread in threads {
            // A step that panics has failed its log.
            let _ = thread.join();
        }
    }

    /// Wakes or starts a thread for a queued task.
    fn employ(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>, why: Wake) {
        if state.idle > 0 || state.started == state.max_threads {
            drop(state);
            self.work.notify_one(&*self.runtime, why);
            return;
        }
        state.started += 1;
        drop(state);
        if self.start_thread().is_err() {
            // If the system cannot start more threads, the existing ones will run the task later.
            self.state().started -= 1;
        }
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let pool = self.clone();
        let body = Box::new(move || pool.run());
        let thread = self.runtime.spawn("logforce-pool", body)?;
        self.state().threads.push(thread);
        Ok(())
    }

    /// Runs tasks, as the body of a thread.
    fn run(self: &Arc<Self>) {
        IN_POOL.with(|in_pool| in_pool.set(true));
        loop {
            let seen = self.work.observe();
            let now = self.runtime.now();
            let mut state = self.state();
            state.queue_due(now);
            if let Some(task) = state.take() {
                let can_employ = state.idle > 0 || state.started < state.max_threads;
                if state.has_work() || state.lacks_watch() && can_employ {
                    // This step may take long, so another thread takes the next task, or waits for the
                    // timers.
                    self.employ(state, Wake::PoolHandsOver);
                } else {
                    drop(state);
                }
                task.run();
                continue;
            }
            if state.stopping {
                return;
            }
            let until = match state.lacks_watch() {
                true => state.timers.first().map(|(at, _)| *at),
                false => None,
            };
            state.watch_until = until.or(state.watch_until);
            state.idle += 1;
            drop(state);
            let timeout = until.map(|at| at.saturating_sub(now));
            self.work
                .wait(&*self.runtime, seen, timeout, WaitFor::PoolWork);
            let mut state = self.state();
            state.idle -= 1;
            if until.is_some() && state.watch_until == until {
                state.watch_until = None;
            }
        }
    }
}

impl PoolState {
    /// Returns true if a thread may run a task of this kind now. One thread stays available for the other
    /// kind.
    fn may_run(&self, kind: usize) -> bool {
        let spare = planted!("pool-full-of-one-kind", 0, else 1);
        !self.queues[kind].is_empty() && self.running[kind] + spare < self.max_threads
    }

    /// Returns true if no idle thread wakes up in time for the next timer.
    fn lacks_watch(&self) -> bool {
        match (self.timers.first(), self.watch_until) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((at, _)), Some(until)) => *at < until,
        }
    }

    fn has_work(&self) -> bool {
        (0..self.queues.len()).any(|kind| self.may_run(kind))
    }

    /// Takes the next task, of the kind that fewer threads are running.
    fn take(&mut self) -> Option<Arc<Task>> {
        let kinds = 0..self.queues.len();
        let kind = kinds
            .filter(|kind| self.may_run(*kind))
            .min_by_key(|kind| self.running[*kind])?;
        let task = self.queues[kind].pop_front()?;
        self.running[kind] += 1;
        Some(task)
    }

    /// Queues the tasks whose time has come.
    fn queue_due(&mut self, now: Duration) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, pointer)) = self.timers.pop_first()
        {
            if let Some(task) = pointer.1.upgrade() {
                task.state().phase = Phase::Queued;
                self.queues[task.kind as usize].push_back(task);
            }
        }
    }
}

impl Task {
    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timer(self: &Arc<Self>, at: Duration) -> (Duration, TaskPointer) {
        (at, TaskPointer(self.number, Arc::downgrade(self)))
    }

    /// Returns true if tasks of the same kind wait for a thread.
    pub(crate) fn keeps_others_waiting(&self) -> bool {
        self.pool.is_busy(self.kind)
    }

    /// Schedules a step. If a step runs now, the scheduled one runs after it.
    pub(crate) fn schedule(self: &Arc<Self>) {
        let mut pool = self.pool.state();
        let mut task = self.state();
        match task.phase {
            Phase::Waiting(until) => {
                task.phase = Phase::Queued;
                drop(task);
                if let Some(at) = until {
                    pool.timers.remove(&self.timer(at));
                }
                pool.queues[self.kind as usize].push_back(self.clone());
                self.pool.employ(pool, Wake::PoolWork);
            }
            Phase::Running { .. } => {
                if !planted!("task-scheduled-while-it-runs") {
                    task.phase = Phase::Running { again: true };
                }
            }
            Phase::Queued | Phase::Done => {}
        }
    }

    /// Runs a step. The calling thread took the task from the queue.
    fn run(self: &Arc<Self>) {
        let step = {
            let _pool = self.pool.state();
            let mut task = self.state();
            // Another thread may have finished the task after it was queued.
            (task.phase == Phase::Queued)
                .then(|| task.phase = Phase::Running { again: false })
                .and_then(|()| task.step.take())
        };
        let Some(mut step) = step else {
            self.pool.state().running[self.kind as usize] -= 1;
            return;
        };
        let next = step();
        let mut pool = self.pool.state();
        pool.running[self.kind as usize] -= 1;
        let mut task = self.state();
        let again = task.phase == Phase::Running { again: true };
        let mut over = None;
        task.phase = match next {
            Next::Done => Phase::Done,
            Next::Wait(until) if !again => Phase::Waiting(until),
            _ => Phase::Queued,
        };
        match task.phase {
            Phase::Done => over = Some(step),
            _ => task.step = Some(step),
        }
        let phase = task.phase;
        drop(task);
        match phase {
            Phase::Queued => pool.queues[self.kind as usize].push_back(self.clone()),
            Phase::Waiting(Some(at)) => {
                pool.timers.insert(self.timer(at));
            }
            _ => {}
        }
        // This thread takes its next task afterwards, so it need not wake another one, even if a task of this
        // kind was waiting for the end of this step.
        drop(pool);
        // Drops the step without the lock, because dropping it may close logs.
        drop(over);
        self.pool
            .ended
            .notify(&*self.pool.runtime, Wake::TaskStepEnded);
    }

    /// Ends the task: waits for the running step, and prevents further ones. Returns false if the task had
    /// already ended. Must not be called within a step of the same task.
    pub(crate) fn finish(self: &Arc<Self>) -> bool {
        loop {
            let seen = self.pool.ended.observe();
            let mut pool = self.pool.state();
            let mut task = self.state();
            match task.phase {
                Phase::Done => return false,
                Phase::Running { .. } => {
                    drop(task);
                    drop(pool);
                    let ended = &self.pool.ended;
                    ended.wait(&*self.pool.runtime, seen, None, WaitFor::TaskStep);
                }
                // If the task is queued, the thread that takes it will find it done.
                Phase::Waiting(_) | Phase::Queued => {
                    if let Phase::Waiting(Some(at)) = task.phase {
                        pool.timers.remove(&self.timer(at));
                    }
                    task.phase = Phase::Done;
                    let step = task.step.take();
                    drop(task);
                    drop(pool);
                    drop(step);
                    return true;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
