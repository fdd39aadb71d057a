//! Slices of one case, and what they come to.

use super::CpuTimes;
use super::method::Calls;
use crate::Recorder;
use crate::counters::Delta;
use crate::recorder::Latencies;
use crate::stats::{Spread, spread};
use std::time::Duration;

/// One slice.
pub(super) struct Point {
    /// Commits.
    pub(super) commits: u64,
    /// Of the commits, and of what they left to be done later.
    pub(super) time: Duration,
    /// Processor time of the process meanwhile.
    pub(super) cpu: Option<CpuTimes>,
    /// What was asked of the system.
    pub(super) calls: Calls,
    latencies: Latencies,
    device: Option<Delta>,
}

impl Point {
    /// From a recorder of one slice.
    pub(super) fn new(
        recorder: &Recorder,
        finishing: Duration,
        times: Option<(CpuTimes, CpuTimes)>,
        calls: Calls,
    ) -> Point {
        let cpu = times.map(|(before, after)| CpuTimes {
            user: after.user.saturating_sub(before.user),
            system: after.system.saturating_sub(before.system),
        });
        Point {
            commits: recorder.commits(),
            time: recorder.time() + finishing,
            cpu,
            calls,
            latencies: recorder.latencies().clone(),
            device: recorder.device(),
        }
    }

    /// Milliseconds of a commit.
    pub(super) fn ms(&self) -> f64 {
        self.time.as_secs_f64() * 1e3 / self.commits.max(1) as f64
    }
}

/// All slices of one case.
#[derive(Default)]
pub(super) struct Series {
    /// In the order of the rounds.
    pub(super) points: Vec<Point>,
}

impl Series {
    /// Commits in all of them.
    pub(super) fn commits(&self) -> u64 {
        self.points.iter().map(|p| p.commits).sum()
    }

    /// Milliseconds of a commit, over the slices.
    pub(super) fn ms(&self) -> Option<Spread> {
        spread(&self.points.iter().map(Point::ms).collect::<Vec<_>>())
    }

    /// The same as a multiple of another's, round by round.
    pub(super) fn ratio(&self, to: &Series) -> Option<Spread> {
        let pairs = self.points.iter().zip(&to.points);
        spread(&pairs.map(|(a, b)| a.ms() / b.ms()).collect::<Vec<_>>())
    }

    /// Processor time of a commit, microseconds: all of it by all commits, for the system's clock is
    /// too coarse for a slice.
    pub(super) fn cpu_us(&self, of: fn(&CpuTimes) -> Duration) -> Option<f64> {
        let mut sum = Duration::ZERO;
        for point in &self.points {
            sum += of(point.cpu.as_ref()?);
        }
        let commits = self.commits();
        (commits > 0).then(|| sum.as_secs_f64() * 1e6 / commits as f64)
    }

    /// Calls, or what the device did, by commits.
    pub(super) fn by_commit(&self, of: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
        let mut sum = 0;
        for point in &self.points {
            sum += of(point)?;
        }
        let commits = self.commits();
        (commits > 0).then(|| sum as f64 / commits as f64)
    }

    /// What the device did, by commits.
    pub(super) fn device(&self, of: impl Fn(&Delta) -> Option<u64>) -> Option<f64> {
        self.by_commit(|p| of(p.device.as_ref()?))
    }

    /// Of all slices.
    pub(super) fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        self.points.iter().for_each(|p| all.merge(&p.latencies));
        all
    }
}
