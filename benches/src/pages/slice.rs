//! One rival, one case, once.

use super::case::{Case, Duration as Kind, PAGE};
use super::store::{Change, Layout, OpenStore};
use anyhow::{Context, Result};
use logforce_measure::counters::{CounterSource, Delta};
use logforce_measure::workers::{Step, Work, together};
use logforce_measure::{Interrupt, Limit, MeasureError, Recorder};
use logforce_testkit::Rng;
use rustix::time::{ClockId, clock_gettime};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Measurements of one slice.
#[derive(Debug, Clone)]
pub struct PageSlice {
    /// Number of commits.
    pub commits: u64,
    /// Duration of the commits; in a sustained case including deferred work.
    pub took: Duration,
    /// Median duration of a commit, microseconds.
    pub p50_us: f64,
    /// 99.9th percentile of a commit's duration, microseconds.
    pub p999_us: f64,
    /// Longest duration of a commit, microseconds.
    pub max_us: f64,
    /// Processor time of this process during the slice, all threads together.
    pub cpu: Duration,
    /// Writes and flushes of the device, including deferred work.
    pub device: Option<Delta>,
}

impl PageSlice {
    /// Returns the commits per second.
    pub fn rate(&self) -> f64 {
        self.commits as f64 / self.took.as_secs_f64()
    }
}

/// Runs one slice.
///
/// # Errors
/// Returns the rival's error.
pub fn run(
    store: &dyn OpenStore,
    case: Case,
    layout: Layout,
    seconds: Duration,
    counters: &Rc<dyn CounterSource>,
    interrupt: &Interrupt,
) -> Result<PageSlice> {
    store.finish().context("finish")?;
    let limit = match case.duration {
        Kind::Sustained => Limit {
            commits: u64::MAX,
            time: Some(seconds),
        },
        Kind::Burst => Limit {
            // The divisor includes the log's headers.
            commits: layout.burst() / (case.pages * (PAGE + 64)) as u64,
            time: None,
        },
    };
    let mut recorder = Recorder::new(Rc::clone(counters), interrupt.clone());
    let work = Commits {
        store,
        case,
        pages: layout.pages,
    };
    let before = counters.read();
    let cpu = cpu_time();
    recorder.begin_slice();
    together(&work, u32::try_from(case.threads)?, &limit, &mut recorder)?;
    let began = Instant::now();
    store.finish().context("finish")?;
    let finished = began.elapsed();
    let device = before
        .zip(counters.read())
        .map(|(before, after)| Delta::between(before, after));
    let put_off = match case.duration {
        Kind::Sustained => finished,
        Kind::Burst => Duration::ZERO,
    };
    let latencies = recorder.latencies();
    Ok(PageSlice {
        commits: recorder.commits(),
        took: recorder.time() + put_off,
        p50_us: latencies.quantile_us(0.5),
        p999_us: latencies.quantile_us(0.999),
        max_us: latencies.max_us(),
        cpu: cpu_time() - cpu,
        device,
    })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Work of the threads.
struct Commits<'a> {
    store: &'a dyn OpenStore,
    case: Case,
    pages: u64,
}

/// One thread.
struct Worker {
    thread: usize,
    rng: Rng,
    bytes: Vec<u8>,
}

impl Work for Commits<'_> {
    type Worker = Worker;

    fn worker(&self, thread: u32) -> Result<Worker, MeasureError> {
        let mut rng = Rng::new(u64::from(thread) + 1);
        Ok(Worker {
            thread: thread as usize,
            bytes: (0..self.case.changed).map(|_| rng.bits() as u8).collect(),
            rng,
        })
    }

    fn step(&self, worker: &mut Worker, _: Instant) -> Result<Step, MeasureError> {
        let pages = self.case.pick(&mut worker.rng, worker.thread, self.pages);
        let stamp = worker.rng.bits().to_le_bytes();
        let begin = worker.bytes.len().min(8);
        worker.bytes[..begin].copy_from_slice(&stamp[..begin]);
        let change = Change {
            pages: &pages,
            bytes: &worker.bytes,
            at: worker.rng.below(PAGE as u64) as usize,
        };
        let began = Instant::now();
        let done = self.store.commit(&change);
        done.map_err(|e| MeasureError::NotOffered(format!("{e:#}")))?;
        Ok(Step { began, more: true })
    }
}
