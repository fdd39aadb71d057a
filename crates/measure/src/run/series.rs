//! Slices of one subject, and what they come to.

use super::counters::Delta;
use super::counting::CallCounts;
use super::recorder::{Latencies, Recorder};
use crate::run::stats::{Spread, spread};
use std::time::Duration;

/// Processor time of this process, all threads together.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    /// In its own code.
    pub user: Duration,
    /// In the system.
    pub system: Duration,
}

/// Measurements of one slice.
pub struct MeasuredSlice {
    latencies: Latencies,
    time: Duration,
    counts: CallCounts,
    device: Option<Delta>,
    cpu: Option<CpuTimes>,
}

impl MeasuredSlice {
    /// From a recorder of one slice.
    pub fn new(recorder: &Recorder, counts: CallCounts) -> Self {
        MeasuredSlice {
            latencies: recorder.latencies().clone(),
            time: recorder.time(),
            counts,
            device: recorder.device(),
            cpu: None,
        }
    }

    /// With time for what the commits left to be done later.
    pub fn with_later(self, later: Duration) -> Self {
        MeasuredSlice {
            time: self.time + later,
            ..self
        }
    }

    /// With the processor time from one reading to another.
    pub fn with_cpu(self, times: Option<(CpuTimes, CpuTimes)>) -> Self {
        let cpu = times.map(|(before, after)| CpuTimes {
            user: after.user.saturating_sub(before.user),
            system: after.system.saturating_sub(before.system),
        });
        MeasuredSlice { cpu, ..self }
    }

    /// Commits in it.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }
}

/// Figures of one slice, as they are compared with another.
#[derive(Debug, Clone, Copy)]
pub struct SeriesPoint {
    /// Commits per second.
    pub rate: f64,
    /// Median latency, µs.
    pub p50: f64,
    /// 99 of 100 took no longer, µs.
    pub p99: f64,
}

impl SeriesPoint {
    /// Milliseconds of a commit.
    pub fn ms(&self) -> f64 {
        1e3 / self.rate
    }
}

/// All slices of one subject in one case.
#[derive(Default)]
pub struct Series {
    /// In the order of the slices.
    pub points: Vec<SeriesPoint>,
    /// Of all slices.
    pub latencies: Latencies,
    /// What the system was handed.
    pub counts: CallCounts,
    /// What the device did.
    pub device: Option<Delta>,
    /// Of all slices.
    pub time: Duration,
    /// Processor time, of the slices where it is known.
    pub cpu: Option<CpuTimes>,
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
        self.cpu = match (self.cpu, taken.cpu) {
            (Some(sum), Some(more)) => Some(CpuTimes {
                user: sum.user + more.user,
                system: sum.system + more.system,
            }),
            (sum, more) => sum.or(more),
        };
    }

    /// Commits in all of them.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }

    /// A number by the commits.
    pub fn by_commit(&self, n: u64) -> Option<f64> {
        let commits = self.commits();
        (commits > 0).then(|| n as f64 / commits as f64)
    }

    /// Processor time of a commit, microseconds: all of it by all commits, for the system's clock is
    /// too coarse for a slice.
    pub fn cpu_us(&self, of: fn(&CpuTimes) -> Duration) -> Option<f64> {
        let (cpu, commits) = (self.cpu.as_ref()?, self.commits());
        (commits > 0).then(|| of(cpu).as_secs_f64() * 1e6 / commits as f64)
    }

    /// Of one value of all slices; `None` without any.
    pub fn spread(&self, of: fn(&SeriesPoint) -> f64) -> Option<Spread> {
        spread(&self.points.iter().map(of).collect::<Vec<_>>())
    }

    /// Of the ratio of one value to another's, pair by pair.
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
