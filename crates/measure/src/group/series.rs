//! Slices of one subject, and what they come to.

use crate::Recorder;
use crate::counters::Delta;
use crate::counting::CallCounts;
use crate::recorder::Latencies;
use crate::stats::{Spread, spread};
use std::time::Duration;

/// One slice.
pub struct Taken {
    latencies: Latencies,
    time: Duration,
    counts: CallCounts,
    device: Option<Delta>,
}

impl Taken {
    /// From a recorder of one slice.
    pub fn new(recorder: &Recorder, counts: CallCounts) -> Self {
        Taken {
            latencies: recorder.latencies().clone(),
            time: recorder.time(),
            counts,
            device: recorder.device(),
        }
    }

    /// Commits in it.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }
}

/// What is compared from slice to slice.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Commits per second.
    pub rate: f64,
    /// Median latency, µs.
    pub p50: f64,
    /// 99 of 100 took no longer, µs.
    pub p99: f64,
}

/// All slices of one subject in one case.
#[derive(Default)]
pub struct Series {
    /// In the order of the slices.
    pub points: Vec<Point>,
    /// Of all slices.
    pub latencies: Latencies,
    /// What the system was handed.
    pub counts: CallCounts,
    /// What the device did.
    pub device: Option<Delta>,
    /// Of all slices.
    pub time: Duration,
}

impl Series {
    /// Adds a slice.
    pub fn push(&mut self, taken: &Taken) {
        let seconds = taken.time.as_secs_f64().max(f64::MIN_POSITIVE);
        self.points.push(Point {
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
    }

    /// Commits in all of them.
    pub fn commits(&self) -> u64 {
        self.latencies.count()
    }

    /// Of one value of all slices; `None` without any.
    pub fn spread(&self, of: fn(&Point) -> f64) -> Option<Spread> {
        spread(&self.points.iter().map(of).collect::<Vec<_>>())
    }

    /// Of the ratio of one value to another's, pair by pair.
    pub fn ratio(&self, to: &Series, of: fn(&Point) -> f64) -> Option<Spread> {
        let ratios: Vec<f64> = self
            .points
            .iter()
            .zip(&to.points)
            .map(|(a, b)| of(a) / of(b))
            .collect();
        spread(&ratios)
    }
}
