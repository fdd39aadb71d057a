//! What the log counts and times while it runs, and how others get to see it.
//!
//! Recording takes no lock and no system call; reading takes no lock either, so the numbers of one
//! reading may be a few records apart from each other.

mod calls;
mod counters;
pub(crate) mod device;
mod histogram;
pub(crate) mod recorder;
mod stats;
pub(crate) mod stats_page;

pub use counters::Counters;
pub use histogram::HistogramSnapshot;
pub use stats::Stats;
pub(crate) use stats_page::read;
pub use stats_page::{LiveStats, LiveSummary};

pub(crate) use recorder::{Load, Metrics};
