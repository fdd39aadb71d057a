//! Threads that commit to one log.

use crate::recorder::Latencies;
use crate::subject::Limit;
use crate::{Interrupt, MeasureError, Recorder};
use logforce::{Log, Lsn};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

/// Stack of a committing thread, bytes: there may be many.
const STACK: usize = 256 << 10;
/// Bytes at the beginning of a record that are different in each.
const STAMP: usize = 8;

/// One timed part.
pub struct Job<'a> {
    pub log: &'a Log,
    pub record: &'a [u8],
    pub threads: u32,
    /// Stop when a record ends here or above.
    pub until: Lsn,
}

impl Job<'_> {
    /// Commits until the limit or `until` is reached. Returns where the last record ends.
    pub fn run(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        if self.threads == 1 {
            self.alone(limit, recorder)
        } else {
            self.together(limit, recorder)
        }
    }

    fn alone(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        let mut record = self.record.to_vec();
        let mut end = self.log.tail_lsn();
        let mut number = recorder.commits();
        recorder.timed(|laps| {
            while end < self.until && laps.more(limit) {
                stamp(&mut record, number);
                end = self.log.commit(&record)?.end;
                laps.commit();
                number += 1;
            }
            Ok(())
        })?;
        Ok(end)
    }

    fn together(&self, limit: &Limit, recorder: &mut Recorder) -> Result<Lsn, MeasureError> {
        let slice = recorder.slice();
        let course = Course {
            job: self,
            left: AtomicU64::new(limit.commits.saturating_sub(slice.commits).max(1)),
            time: limit.time.map(|t| t.saturating_sub(slice.time)),
            enough: AtomicBool::new(false),
            interrupt: recorder.interrupt().clone(),
            gate: Gate::default(),
        };
        let shared = &course;
        scope(|scope| {
            let mut threads = Vec::new();
            for id in 0..self.threads {
                let thread = Builder::new()
                    .name(format!("committer-{id}"))
                    .stack_size(STACK)
                    .spawn_scoped(scope, move || shared.commit(u64::from(id)));
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(e) => {
                        course.gate.open(false);
                        return Err(MeasureError::io("starting a thread")(e));
                    }
                }
            }
            course.gate.wait_for(threads.len());
            let mut last = self.log.front_lsn();
            recorder.parallel(|| {
                course.gate.open(true);
                let runs = join(threads)?;
                last = runs.iter().map(|r| r.end).max().unwrap_or(last).max(last);
                let start = runs.iter().map(|r| r.started).min();
                let end = runs.iter().map(|r| r.ended).max();
                let took = start.zip(end).map_or(Duration::ZERO, |(s, e)| e - s);
                Ok((took, runs.into_iter().map(|r| r.latencies).collect()))
            })?;
            Ok(last)
        })
    }
}

fn join(
    threads: Vec<ScopedJoinHandle<'_, Result<Run, MeasureError>>>,
) -> Result<Vec<Run>, MeasureError> {
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
struct Course<'a> {
    job: &'a Job<'a>,
    /// Commits that nobody has begun yet.
    left: AtomicU64,
    time: Option<Duration>,
    enough: AtomicBool,
    interrupt: Interrupt,
    gate: Gate,
}

/// What one thread did.
struct Run {
    started: Instant,
    ended: Instant,
    end: Lsn,
    latencies: Latencies,
}

impl Course<'_> {
    fn commit(&self, id: u64) -> Result<Run, MeasureError> {
        let mut record = self.job.record.to_vec();
        let mut latencies = Latencies::default();
        let mut end = Lsn::ORIGIN;
        let go = self.gate.pass();
        let started = Instant::now();
        let mut last = started;
        let mut number = id << 40;
        while go && self.may_go_on(last - started) {
            stamp(&mut record, number);
            match self.job.log.commit(&record) {
                Ok(done) => end = done.end,
                Err(e) => {
                    self.enough.store(true, Relaxed);
                    return Err(e.into());
                }
            }
            let now = Instant::now();
            latencies.record(now - last);
            last = now;
            number += 1;
            if end >= self.job.until {
                self.enough.store(true, Relaxed);
            }
        }
        Ok(Run {
            started,
            ended: last,
            end,
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

fn stamp(record: &mut [u8], number: u64) {
    let n = record.len().min(STAMP);
    record[..n].copy_from_slice(&number.to_le_bytes()[..n]);
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
