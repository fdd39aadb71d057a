//! Threads that commit at the same time. All start together, and each records its own latencies.

use crate::run::cpu;
use crate::run::recorder::Latencies;
use crate::run::recorder::Limit;
use crate::{Interrupt, MeasureError, Recorder};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

/// Stack of a committing thread, bytes. It is small, because there may be many threads.
const STACK: usize = 256 << 10;

/// Work that each thread repeats.
pub trait Work: Sync {
    /// State of one thread.
    type Worker: Send;

    /// Stack of each thread, bytes.
    const STACK: usize = STACK;

    /// Creates the state of thread number `thread` (from 0), before the clock starts.
    fn worker(&self, thread: u32) -> Result<Self::Worker, MeasureError>;

    /// Commits once. `now` is the last reading of the clock.
    fn step(&self, worker: &mut Self::Worker, now: Instant) -> Result<Step, MeasureError>;

    /// Waits for one commit that is still in flight; `None` if there is none.
    fn finish(&self, _: &mut Self::Worker) -> Result<Option<Step>, MeasureError> {
        Ok(None)
    }
}

/// A completed commit.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Start of the commit; it ended just now.
    pub began: Instant,
    /// True if any thread may commit once more; false ends all threads.
    pub more: bool,
}

/// Runs `threads` threads until the limit is reached or a step says that there is no space for more.
/// Returns their states, in no particular order.
pub fn together<W: Work>(
    work: &W,
    threads: u32,
    limit: &Limit,
    recorder: &mut Recorder,
) -> Result<Vec<W::Worker>, MeasureError> {
    let slice = recorder.slice();
    let course = Course {
        work,
        left: AtomicU64::new(limit.commits.saturating_sub(slice.commits).max(1)),
        time: limit.time.map(|t| t.saturating_sub(slice.time)),
        enough: AtomicBool::new(false),
        interrupt: recorder.interrupt().clone(),
        gate: Gate::default(),
    };
    let shared = &course;
    scope(|scope| {
        let mut started = Vec::new();
        for id in 0..threads {
            let thread = Builder::new()
                .name(format!("committer-{id}"))
                .stack_size(W::STACK)
                .spawn_scoped(scope, move || shared.work(id));
            match thread {
                Ok(thread) => started.push(thread),
                Err(e) => {
                    course.gate.open(false);
                    return Err(MeasureError::io("starting a thread")(e));
                }
            }
        }
        course.gate.wait_for(started.len());
        let mut workers = Vec::new();
        let mut waited = None;
        recorder.parallel(|| {
            course.gate.open(true);
            let runs = join(started)?;
            let start = runs.iter().map(|r| r.started).min();
            let end = runs.iter().map(|r| r.ended).max();
            let took = start.zip(end).map_or(Duration::ZERO, |(s, e)| e - s);
            let mut latencies = Vec::new();
            for run in runs {
                latencies.push(run.latencies);
                waited = run.waited;
                workers.push(run.worker);
            }
            Ok((took, latencies))
        })?;
        // Several threads also wait for each other.
        if let (1, Some(waited)) = (threads, waited) {
            recorder.count_cpu_wait(waited);
        }
        Ok(workers)
    })
}

fn join<H>(
    threads: Vec<ScopedJoinHandle<'_, Result<Run<H>, MeasureError>>>,
) -> Result<Vec<Run<H>>, MeasureError> {
    // Joins all threads, even if one failed.
    let results: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
    results
        .into_iter()
        .map(|r| {
            r.unwrap_or_else(|_| {
                Err(MeasureError::NotOffered(
                    "a committing thread panicked".to_owned(),
                ))
            })
        })
        .collect()
}

/// State that the threads of a timed part share.
struct Course<'a, W> {
    work: &'a W,
    /// Number of commits that no thread has begun yet.
    left: AtomicU64,
    time: Option<Duration>,
    enough: AtomicBool,
    interrupt: Interrupt,
    gate: Gate,
}

/// Result of one thread.
struct Run<H> {
    started: Instant,
    ended: Instant,
    worker: H,
    latencies: Latencies,
    /// Time for which the thread waited for a processor.
    waited: Option<Duration>,
}

impl<W: Work> Course<'_, W> {
    fn work(&self, id: u32) -> Result<Run<W::Worker>, MeasureError> {
        let worker = self.work.worker(id);
        let latencies = Latencies::default();
        let go = self.gate.pass();
        let result = worker.and_then(|worker| self.run(worker, latencies, go));
        if result.is_err() {
            self.enough.store(true, Relaxed);
        }
        result
    }

    fn run(
        &self,
        mut worker: W::Worker,
        mut latencies: Latencies,
        go: bool,
    ) -> Result<Run<W::Worker>, MeasureError> {
        let waited = cpu::thread_wait();
        let started = Instant::now();
        let mut last = started;
        let mut done = |step: Step, last: &mut Instant| {
            let now = Instant::now();
            latencies.record(now.saturating_duration_since(step.began));
            *last = now;
        };
        while go && self.may_go_on(last - started) {
            let step = self.work.step(&mut worker, last)?;
            done(step, &mut last);
            if !step.more {
                self.enough.store(true, Relaxed);
            }
        }
        while let Some(step) = self.work.finish(&mut worker)? {
            done(step, &mut last);
        }
        let waited = cpu::thread_wait().zip(waited);
        Ok(Run {
            started,
            ended: last,
            worker,
            latencies,
            waited: waited.map(|(after, before)| after.saturating_sub(before)),
        })
    }

    fn may_go_on(&self, elapsed: Duration) -> bool {
        !self.interrupt.is_raised()
            && !self.enough.load(Relaxed)
            && self
                .time
                .is_none_or(|t| elapsed < t || elapsed == Duration::ZERO)
            && self
                .left
                .try_update(Relaxed, Relaxed, |n| n.checked_sub(1))
                .is_ok()
    }
}

/// Barrier at which the threads wait until all have arrived.
#[derive(Default)]
struct Gate {
    /// Number of threads that arrived, and the decision once the gate is open: true to work, false to end.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            match state.1 {
                Some(go) => return go,
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn wait_for(&self, count: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < count {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, go: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(go);
        self.changed.notify_all();
    }
}
