//! Threads that commit at the same time: all start together, and each keeps its own latencies.

use crate::run::recorder::Latencies;
use crate::run::recorder::Limit;
use crate::{Interrupt, MeasureError, Recorder};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

/// Stack of a committing thread, bytes: there may be many.
const STACK: usize = 256 << 10;
/// Bytes at the beginning of a record that are different in each.
const STAMP: usize = 8;

/// What every one of the threads does again and again.
pub trait Work: Sync {
    /// What a thread keeps for itself.
    type Worker: Send;

    /// Stack of each thread, bytes.
    const STACK: usize = STACK;

    /// For the thread of this number, from 0; before the clock starts.
    fn worker(&self, thread: u32) -> Result<Self::Worker, MeasureError>;

    /// Commits once. `now` is the last look at the clock.
    fn step(&self, worker: &mut Self::Worker, now: Instant) -> Result<Step, MeasureError>;

    /// Waits for one commit that is still under way; `None` when there is none left.
    fn finish(&self, _: &mut Self::Worker) -> Result<Option<Step>, MeasureError> {
        Ok(None)
    }
}

/// A commit that is done.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// When it was begun; it is over now.
    pub began: Instant,
    /// There is room for another one, of anybody's.
    pub more: bool,
}

/// Has `threads` threads work until the limit is reached or there is no more room, and returns
/// what they kept, in no order.
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
        recorder.parallel(|| {
            course.gate.open(true);
            let runs = join(started)?;
            let start = runs.iter().map(|r| r.started).min();
            let end = runs.iter().map(|r| r.ended).max();
            let took = start.zip(end).map_or(Duration::ZERO, |(s, e)| e - s);
            let mut latencies = Vec::new();
            for run in runs {
                latencies.push(run.latencies);
                workers.push(run.worker);
            }
            Ok((took, latencies))
        })?;
        Ok(workers)
    })
}

/// Makes a record different from every other: its number at its beginning.
pub fn stamp(record: &mut [u8], number: u64) {
    let n = record.len().min(STAMP);
    record[..n].copy_from_slice(&number.to_le_bytes()[..n]);
}

/// The first number of a thread's records; they go up by one from there.
pub fn first_number(thread: u32) -> u64 {
    u64::from(thread) << 40
}

fn join<H>(
    threads: Vec<ScopedJoinHandle<'_, Result<Run<H>, MeasureError>>>,
) -> Result<Vec<Run<H>>, MeasureError> {
    // All are waited for, whatever the first one says.
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

/// What the threads of a timed part share.
struct Course<'a, W> {
    work: &'a W,
    /// Commits that nobody has begun yet.
    left: AtomicU64,
    time: Option<Duration>,
    enough: AtomicBool,
    interrupt: Interrupt,
    gate: Gate,
}

/// What one thread did.
struct Run<H> {
    started: Instant,
    ended: Instant,
    worker: H,
    latencies: Latencies,
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
        Ok(Run {
            started,
            ended: last,
            worker,
            latencies,
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

/// Where the threads wait until all are there.
#[derive(Default)]
struct Gate {
    /// How many arrived, and whether it opened: to go, or to go home.
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
