//! Events that a watch reports.

use std::time::Duration;

/// An event that a watch reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A minute has passed, or the watch has ended within one.
    Minute(Minute),
    /// A commit took long.
    Stall(Stall),
    /// The wall clock was set, or the machine was suspended.
    Clock(ClockChange),
    /// The program could not begin a commit in time.
    Late(Late),
}

/// Commits of one minute.
#[derive(Debug, Clone, PartialEq)]
pub struct Minute {
    /// Start, since 1970.
    pub at: Duration,
    /// Length; shorter than a minute before a change of the clock and at the end.
    pub lasted: Duration,
    /// Number of commits.
    pub commits: u64,
    /// Median latency, microseconds.
    pub p50_us: f64,
    /// 90th percentile, microseconds.
    pub p90_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// Longest latency, microseconds.
    pub max_us: f64,
    /// Number of stalls among the commits.
    pub stalls: u64,
    /// Bytes that the device wrote, for all processes; `None` if it does not count them.
    pub device_bytes: Option<u64>,
}

/// A commit that took long.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// Start of the commit, since 1970.
    pub at: Duration,
    /// Duration of the commit.
    pub lasted: Duration,
    /// Bytes that the device wrote meanwhile, for all processes; `None` if it does not count them.
    pub device_bytes: Option<u64>,
}

/// A wall clock that went on by another time than the monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockChange {
    /// Time after the change, since 1970.
    pub at: Duration,
    /// Change in seconds: positive if the clock was set forward or the machine was suspended.
    pub by_seconds: f64,
}

/// A commit that began too late.
#[derive(Debug, Clone, PartialEq)]
pub struct Late {
    /// Time at which the commit should have begun, since 1970.
    pub at: Duration,
    /// Delay.
    pub lasted: Duration,
}
