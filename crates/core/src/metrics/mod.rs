//! Statistics: the counters and durations of a running log, and their publication.
//!
//! Recording takes no lock and makes no system call. Reading takes no lock either, so the numbers may
//! differ from each other by a few records.

mod calls;
mod counters;
pub(crate) mod device;
pub(crate) mod recorder;
mod stats;
pub(crate) mod stats_page;

pub use counters::Counters;
pub use stats::Stats;
pub(crate) use stats_page::read;
pub use stats_page::{LiveStats, LiveSummary};

pub(crate) use recorder::{Load, Metrics};
