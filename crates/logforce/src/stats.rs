//! Statistics of a log, of an environment, and of a log that another process writes.
//!
//! [`Log::stats`](crate::Log::stats) and [`Environment::stats`](crate::Environment::stats) return the
//! statistics of this process. [`Inspector::live`](crate::inspect::Inspector::live) returns those that a log
//! writes for other processes ([`Tuning::live_stats`](crate::Tuning::live_stats)).

pub use logforce_core::{
    Counters, EnvironmentStats, HistogramSnapshot, LiveStats, LiveSummary, Stats,
};
