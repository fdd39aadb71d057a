//! Writes in flight by threads; each write blocks one thread.

use super::{Run, Target, graver};
use crate::event::Event;
use crate::sync::Mutex;
use crate::{JoinHandle, Runtime};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

pub(super) struct Threads {
    pool: Arc<Pool>,
    threads: Vec<Box<dyn JoinHandle>>,
}

struct Pool {
    runtime: Arc<dyn Runtime>,
    jobs: Mutex<Jobs>,
    work: Event,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

struct Job {
    target: Target,
    run: Run,
    set: Arc<Set>,
}

/// Runs whose common end one caller waits for.
#[derive(Default)]
struct Set {
    state: Mutex<SetState>,
    done: Event,
}

#[derive(Default)]
struct SetState {
    left: usize,
    error: Option<io::Error>,
}

impl Threads {
    pub(super) fn start(runtime: &Arc<dyn Runtime>, count: usize) -> io::Result<Threads> {
        let mut threads = Threads {
            pool: Arc::new(Pool {
                runtime: runtime.clone(),
                jobs: Mutex::default(),
                work: Event::default(),
            }),
            threads: Vec::new(),
        };
        for _ in 0..count {
            let pool = threads.pool.clone();
            let body = Box::new(move || pool.work());
            match runtime.spawn("logforce-write", body) {
                Ok(thread) => threads.threads.push(thread),
                Err(e) => {
                    threads.stop();
                    return Err(e);
                }
            }
        }
        Ok(threads)
    }

    pub(super) fn write(&self, target: &Target, mut runs: Vec<Run>) -> io::Result<()> {
        // The caller writes one run itself, so that a single run needs no other thread.
        let Some(own) = runs.pop() else {
            return Ok(());
        };
        let set = Arc::new(Set::default());
        if !runs.is_empty() {
            lock(&set.state).left = runs.len();
            let jobs = runs.into_iter().map(|run| Job {
                target: target.clone(),
                run,
                set: set.clone(),
            });
            lock(&self.pool.jobs).waiting.extend(jobs);
            self.pool.work.notify(&*self.pool.runtime);
        }
        let result = target.write(&own, None).map(drop);
        loop {
            // The caller also writes runs that no thread has taken yet.
            let job = lock(&self.pool.jobs).waiting.pop_front();
            match job {
                Some(job) => self.pool.carry_out(job),
                None => break,
            }
        }
        loop {
            let seen = set.done.observe();
            let mut state = lock(&set.state);
            if state.left == 0 {
                return match (result, state.error.take()) {
                    (Err(own), Some(other)) => Err(graver(own, other)),
                    (Err(e), None) | (Ok(()), Some(e)) => Err(e),
                    (Ok(()), None) => Ok(()),
                };
            }
            drop(state);
            set.done.wait(&*self.pool.runtime, seen, None);
        }
    }

    fn stop(&mut self) {
        lock(&self.pool.jobs).closed = true;
        self.pool.work.notify(&*self.pool.runtime);
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it, and its job's set has failed.
            let _ = thread.join();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pool {
    fn work(&self) {
        loop {
            let seen = self.work.observe();
            let mut jobs = lock(&self.jobs);
            match jobs.waiting.pop_front() {
                Some(job) => {
                    drop(jobs);
                    self.carry_out(job);
                }
                None if jobs.closed => return,
                None => {
                    drop(jobs);
                    self.work.wait(&*self.runtime, seen, None);
                }
            }
        }
    }

    fn carry_out(&self, job: Job) {
        let mut ended = Ended {
            pool: self,
            set: job.set,
            result: Some(Err(io::Error::other("the thread that wrote panicked"))),
        };
        ended.result = Some(job.target.write(&job.run, None).map(drop));
    }
}

/// Counts a job as done, also when it unwinds. Otherwise its caller would wait for ever.
struct Ended<'a> {
    pool: &'a Pool,
    set: Arc<Set>,
    result: Option<io::Result<()>>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.set.state);
        state.left -= 1;
        if let Some(Err(e)) = self.result.take() {
            state.error = Some(match state.error.take() {
                Some(before) => graver(before, e),
                None => e,
            });
        }
        drop(state);
        self.set.done.notify(&*self.pool.runtime);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
