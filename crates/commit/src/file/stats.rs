//! Statistics of a durable file.

use crate::counters;
use crate::metrics::histogram::{Histogram, HistogramSnapshot, Sharded};
use std::time::Duration;

counters! {
    /// Device writes, without those of [`prepared_bytes`](Self::prepared_bytes).
    writes,
    /// Bytes of these writes.
    write_bytes,
    /// Device writes that were durable by themselves.
    through_writes,
    /// Commits that were acknowledged: by waiting, and by handles whose result was taken.
    commits,
    /// Commits that needed no sync, because nothing was written since the last one.
    idle_commits,
    /// Syncs of the file, each for all commits that waited for it.
    syncs,
    /// Bytes that were written in preparation, zeroes or present contents.
    prepared_bytes,
}

/// Statistics of a durable file since it was opened. Times are nanoseconds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Counters.
    pub counters: Counters,
    /// Durations of commits that waited, from the call to its return. Handles of submissions are not
    /// included.
    pub commit: HistogramSnapshot,
    /// Durations of syncs.
    pub sync: HistogramSnapshot,
    /// Durations of writes that were durable by themselves.
    pub through_write: HistogramSnapshot,
}

impl Stats {
    /// Returns the mean number of commits per sync or durable write; `None` before the first one.
    pub fn commits_per_force(&self) -> Option<f64> {
        let c = &self.counters;
        let forces = c.syncs + c.through_writes;
        (forces > 0).then(|| c.commits.saturating_sub(c.idle_commits) as f64 / forces as f64)
    }
}

/// The counters and histograms of one opening.
#[derive(Default)]
pub(super) struct Metrics {
    pub(super) counted: CounterSet,
    pub(super) commit: Sharded,
    pub(super) sync: Histogram,
    pub(super) through_write: Histogram,
}

impl Metrics {
    pub(super) fn read(&self) -> Stats {
        Stats {
            counters: self.counted.read(),
            commit: self.commit.snapshot(),
            sync: self.sync.snapshot(),
            through_write: self.through_write.snapshot(),
        }
    }
}

/// Returns a duration as a value of a histogram.
pub(super) fn nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}
