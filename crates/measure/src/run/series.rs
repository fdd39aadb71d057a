//! Slices of one subject, and their totals.

use super::counters::Delta;
use super::counting::CallCounts;
use super::recorder::{Latencies, Recorder};
use crate::run::stats::{Spread, spread};
use std::time::Duration;

/// Processor time of this process, over all threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

/// Measurements of one slice.
pub struct MeasuredSlice {
    latencies: Latencies,
    time: Duration,
    counts: CallCounts,
    device: Option<Delta>,
    cpu: Option<CpuTimes>,
    cpu_wait: Option<Duration>,
}

impl MeasuredSlice {
    /// Takes the measurements from the recorder of one slice.
    pub fn new(recorder: &Recorder, counts: CallCounts) -> Self {
        MeasuredSlice {
            latencies: recorder.latencies().clone(),
            time: recorder.time(),
            counts,
            device: recorder.device(),
            cpu: None,
            cpu_wait: recorder.cpu_wait(),
        }
    }

    /// Adds the time of work that the commits left for later.
    pub fn with_later(self, later: Duration) -> Self {
        MeasuredSlice {
            time: self.time + later,
            ..self
        }
    }

    /// Sets the processor time between two readings.
    pub fn with_cpu(self, times: Option<(CpuTimes, CpuTimes)>) -> Self {
        let cpu = times.map(|(before, after)| CpuTimes {
            user: after.user.saturating_sub(before.user),
            system: after.system.saturating_sub(before.system),
        });
        MeasuredSlice { cpu, ..self }
    }

    /// Returns the number of commits.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }
}

/// Figures of one slice, for comparison with another.
#[derive(Debug, Clone, Copy)]
pub struct SeriesPoint {
    /// Commits per second.
    pub rate: f64,
    /// Median latency, µs.
    pub p50: f64,
    /// 99th percentile of the latency, µs.
    pub p99: f64,
}

impl SeriesPoint {
    /// Returns the milliseconds per commit.
    pub fn ms(&self) -> f64 {
        1e3 / self.rate
    }
}

/// All slices of one subject in one case.
#[derive(Default)]
pub struct Series {
    /// Figures of each slice, in order.
    pub points: Vec<SeriesPoint>,
    /// Latencies of all slices.
    pub latencies: Latencies,
    /// Calls that were made.
    pub counts: CallCounts,
    /// Work of the device; `None` without counters.
    pub device: Option<Delta>,
    /// Time of all slices.
    pub time: Duration,
    /// Processor time of the slices in which it is known.
    pub cpu: Option<CpuTimes>,
    /// Time for which the only committing thread waited for a processor.
    pub cpu_wait: Option<Duration>,
}

impl Series {
    /// Adds a slice.
    pub fn push(&mut self, taken: &MeasuredSlice) {
        let seconds = taken.time.as_secs_f64().max(f64::MIN_POSITIVE);
        self.points.push(SeriesPoint {
            rate: taken.commits() as f64 / seconds,
            p50: taken.latencies.quantile_us(0.5),
            p99: taken.latencies.quantile_us(0.99),
        });
        self.latencies.merge(&taken.latencies);
        self.counts += taken.counts;
        self.time += taken.time;
        self.device = match (self.device, taken.device) {
            (Some(sum), Some(more)) => Some(sum.plus(more)),
            (sum, more) => sum.or(more),
        };
        if let Some(wait) = taken.cpu_wait {
            *self.cpu_wait.get_or_insert_default() += wait;
        }
        self.cpu = match (self.cpu, taken.cpu) {
            (Some(sum), Some(more)) => Some(CpuTimes {
                user: sum.user + more.user,
                system: sum.system + more.system,
            }),
            (sum, more) => sum.or(more),
        };
    }

    /// Returns the number of commits in all slices.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }

    /// Returns `n` divided by the number of commits; `None` without commits.
    pub fn by_commit(&self, n: u64) -> Option<f64> {
        let commits = self.commits();
        (commits > 0).then(|| n as f64 / commits as f64)
    }

    /// Returns the processor time per commit, microseconds. It is the mean over all slices, because the
    /// system's clock is too coarse for a single one.
    pub fn cpu_us(&self, of: fn(&CpuTimes) -> Duration) -> Option<f64> {
        let (cpu, commits) = (self.cpu.as_ref()?, self.commits());
        (commits > 0).then(|| of(cpu).as_secs_f64() * 1e6 / commits as f64)
    }

    /// Returns the spread of one value over all slices; `None` without slices.
    pub fn spread(&self, of: fn(&SeriesPoint) -> f64) -> Option<Spread> {
        spread(&self.points.iter().map(of).collect::<Vec<_>>())
    }

    /// Returns the spread of the ratio of a value to that of another series, slice by slice.
    pub fn ratio(&self, to: &Series, of: fn(&SeriesPoint) -> f64) -> Option<Spread> {
        let ratios: Vec<f64> = self
            .points
            .iter()
            .zip(&to.points)
            .map(|(a, b)| of(a) / of(b))
            .collect();
        spread(&ratios)
    }
}
