//! Histograms into which many threads record, and their snapshots.

use logforce_device::sync::lane;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Number of buckets per power of two. The middle of a bucket is within 1/32 of every value in it.
const SUB: usize = 16;
/// Exponent of the largest power of two that has buckets. 2^42 nanoseconds are 73 minutes, and the last
/// bucket ends at twice that. It also counts all larger values.
const LARGEST: usize = 42;
const BUCKETS: usize = SUB * (LARGEST - 2);

fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let exponent = value.ilog2() as usize;
    if exponent > LARGEST {
        return BUCKETS - 1;
    }
    let sub = (value >> (exponent - 4)) as usize % SUB;
    (exponent - 3) * SUB + sub
}

/// Returns the smallest value of a bucket and the number of values in it.
fn extent(bucket: usize) -> (u64, u64) {
    if bucket < SUB {
        return (bucket as u64, 1);
    }
    let shift = bucket / SUB - 1;
    let low = (SUB + bucket % SUB) as u64;
    (low << shift, 1 << shift)
}

/// Counts of values in buckets. Recording takes no lock: two additions, and a check of the maximum.
///
/// The buckets (5 KiB) are allocated for the first value, because a process may have very many logs.
#[derive(Default)]
pub struct Histogram {
    buckets: OnceLock<Box<[AtomicU64]>>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&self, value: u64) {
        let buckets = self.buckets.get_or_init(empty);
        buckets[bucket(value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        // Rarely true, so that the cache line stays shared among the threads.
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// Returns the present contents.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let buckets: Vec<u64> = match self.buckets.get() {
            Some(buckets) => buckets.iter().map(|b| b.load(Relaxed)).collect(),
            None => Vec::new(),
        };
        HistogramSnapshot {
            count: buckets.iter().sum(),
            buckets,
            sum: self.sum.load(Relaxed),
            max: self.max.load(Relaxed),
        }
    }
}

fn empty() -> Box<[AtomicU64]> {
    (0..BUCKETS).map(|_| AtomicU64::new(0)).collect()
}

/// Number of threads that can record without contention.
const SHARDS: usize = 8;

/// A histogram for many threads at once.
#[derive(Default)]
pub struct Sharded {
    shards: [Histogram; SHARDS],
}

impl Sharded {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        self.shards[shard()].record(value);
    }

    /// Returns the present contents of all shards.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut all = HistogramSnapshot::default();
        for shard in &self.shards {
            all.merge(&shard.snapshot());
        }
        all
    }
}

/// Returns the shard of this thread, 0 to 7.
pub fn shard() -> usize {
    lane(SHARDS)
}

/// Contents of a histogram at some time.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl HistogramSnapshot {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values, in their unit.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the largest value, in their unit; 0 if there are none. For a [`difference`](Self::difference),
    /// it is an upper bound within 6.3 %.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean of the values, in their unit; 0 if there are none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// Returns the `q` quantile (0 to 1) of the values, in their unit, within 3.2 %; 0 if there are none.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        if rank >= self.count {
            return self.max;
        }
        let mut below = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank.max(1) {
                let (low, width) = extent(i);
                return (low + width / 2).min(self.max);
            }
        }
        self.max
    }

    /// Adds the values of another snapshot.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns the values since `earlier`, an earlier snapshot of the same histogram.
    pub fn difference(&self, earlier: &HistogramSnapshot) -> HistogramSnapshot {
        let mut buckets = self.buckets.clone();
        for (mine, theirs) in buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.saturating_sub(*theirs);
        }
        let highest = buckets.iter().rposition(|&count| count > 0);
        let top = highest.map_or(0, |i| {
            let (low, width) = extent(i);
            low + width - 1
        });
        HistogramSnapshot {
            count: buckets.iter().sum(),
            buckets,
            sum: self.sum.saturating_sub(earlier.sum),
            // The last bucket has no upper end.
            max: if highest == Some(BUCKETS - 1) {
                self.max
            } else {
                top.min(self.max)
            },
        }
    }
}

impl std::fmt::Debug for HistogramSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistogramSnapshot")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_and_are_narrow() {
        let mut next = 0;
        for i in 0..BUCKETS {
            let (low, width) = extent(i);
            assert_eq!(low, next, "bucket {i}");
            assert_eq!((bucket(low), bucket(low + width - 1)), (i, i));
            assert!(width == 1 || width * SUB as u64 <= low, "bucket {i}");
            next = low + width;
        }
        assert!(next > 3600 * 1_000_000_000);
        for huge in [next, u64::MAX] {
            assert_eq!(bucket(huge), BUCKETS - 1);
        }
    }

    #[test]
    fn quantiles_are_within_their_promise() {
        let h = Histogram::default();
        for i in 1..=100_000u64 {
            h.record(i * 37);
        }
        let s = h.snapshot();
        assert_eq!((s.count(), s.max()), (100_000, 3_700_000));
        assert_eq!(s.sum(), 37 * 100_000 * 100_001 / 2);
        for q in [0.001, 0.01, 0.5, 0.9, 0.99, 0.999] {
            let (is, should) = (s.quantile(q) as f64, q * 3_700_000.0);
            assert!((is / should - 1.0).abs() < 0.032, "{q}: {is} for {should}");
        }
        assert_eq!(s.quantile(1.0), 3_700_000);
        assert_eq!(s.quantile(f64::NAN), HistogramSnapshot::quantile(&s, 0.0));
        let none = HistogramSnapshot::default();
        assert_eq!((none.quantile(0.5), none.max(), none.mean()), (0, 0, 0.0));
    }

    #[test]
    fn snapshots_add_up_and_differ() {
        let h = Sharded::default();
        std::thread::scope(|s| {
            for _ in 0..2 * SHARDS {
                s.spawn(|| (0..1000).for_each(|i| h.record(i)));
            }
        });
        let before = h.snapshot();
        assert_eq!(before.count(), 2000 * SHARDS as u64);
        assert_eq!(before.max(), 999);
        for value in [5, 10_000, 100] {
            h.record(value);
        }
        let since = h.snapshot().difference(&before);
        assert_eq!((since.count(), since.sum()), (3, 10_105));
        assert_eq!(since.quantile(0.5), 102, "the middle of 100 to 103");
        assert_eq!(since.max(), 10_000);
        let nothing = h.snapshot().difference(&h.snapshot());
        assert_eq!((nothing.count(), nothing.max()), (0, 0));
        let mut sum = before.clone();
        sum.merge(&since);
        assert_eq!(sum, h.snapshot());
    }
}
