//! Totals since the start, which other threads read while commits go on.

use super::clocks::Clocks;
use crate::recorder::Latencies;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds. A last bucket without a bound has the rest.
pub const BOUNDS: [u64; 18] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
];

/// Numbers of commits by duration: one for each of [`BOUNDS`], and one above them all.
pub type Buckets = [u64; BOUNDS.len() + 1];

/// Totals of a watch. No I/O is made under their lock, so a reader delays no commit.
pub struct Totals(Mutex<State>);

struct State {
    scrape: Scrape,
    latencies: Latencies,
    longest_at: Duration,
}

/// Totals that cost little to copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    /// Numbers of commits by duration.
    pub buckets: Buckets,
    /// Sum of all durations.
    pub sum: Duration,
    /// Number of stalls.
    pub stalls: u64,
    /// Sum of the stalls' durations.
    pub stalled: Duration,
    /// End of the last commit, since 1970; `None` before the first.
    pub last: Option<Duration>,
    /// Commit that has begun and not ended.
    pub in_progress: Option<InProgress>,
}

/// A commit that has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InProgress {
    /// Start by the runtime's clock.
    pub since: Duration,
    /// Start, since 1970.
    pub at: Duration,
}

/// Commits of the whole time.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Number of commits.
    pub commits: u64,
    /// Median latency, microseconds.
    pub p50_us: f64,
    /// 90th percentile, microseconds.
    pub p90_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, microseconds.
    pub p999_us: f64,
    /// Longest latency, microseconds.
    pub max_us: f64,
    /// Start of the longest commit, since 1970.
    pub longest_at: Duration,
    /// Number of stalls.
    pub stalls: u64,
    /// Sum of the stalls' durations.
    pub stalled: Duration,
}

impl Default for Totals {
    fn default() -> Self {
        Totals(Mutex::new(State {
            scrape: Scrape::default(),
            latencies: Latencies::default(),
            longest_at: Duration::ZERO,
        }))
    }
}

impl Totals {
    /// Returns a copy for a scrape.
    pub fn scrape(&self) -> Scrape {
        self.state().scrape.clone()
    }

    /// Returns the percentiles of the whole time; `None` before the first commit.
    pub fn summary(&self) -> Option<Summary> {
        let (latencies, longest_at, scrape) = {
            let state = self.state();
            (
                state.latencies.clone(),
                state.longest_at,
                state.scrape.clone(),
            )
        };
        (latencies.count() > 0).then(|| Summary {
            commits: latencies.count(),
            p50_us: latencies.quantile_us(0.5),
            p90_us: latencies.quantile_us(0.9),
            p99_us: latencies.quantile_us(0.99),
            p999_us: latencies.quantile_us(0.999),
            max_us: latencies.max_us(),
            longest_at,
            stalls: scrape.stalls,
            stalled: scrape.stalled,
        })
    }

    /// Notes that a commit begins.
    pub(super) fn begin(&self, now: Clocks) {
        self.state().scrape.in_progress = Some(InProgress {
            since: now.monotonic,
            at: now.wall,
        });
    }

    /// Notes that the commit has ended, with or without success.
    pub(super) fn end(&self) {
        self.state().scrape.in_progress = None;
    }

    /// Counts a commit.
    pub(super) fn record(&self, start: Clocks, end: Clocks, is_stall: bool) {
        let took = end.monotonic.saturating_sub(start.monotonic);
        let bucket = BOUNDS.partition_point(|&us| Duration::from_micros(us) < took);
        let mut state = self.state();
        if took.as_nanos() as f64 / 1e3 > state.latencies.max_us() {
            state.longest_at = start.wall;
        }
        state.latencies.record(took);
        let scrape = &mut state.scrape;
        scrape.buckets[bucket] += 1;
        scrape.sum += took;
        scrape.last = Some(end.wall);
        if is_stall {
            scrape.stalls += 1;
            scrape.stalled += took;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
