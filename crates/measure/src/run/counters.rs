//! The block device's own counters: the writes and flushes that really reached it.

use std::time::{Duration, Instant};

/// One reading of a device's counters. They count from the time when the device was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Number of completed cache flushes; `None` if the system does not count them.
    pub flushes: Option<u64>,
}

/// Reader of the counters of the device under a directory. The counters belong to the whole device, so
/// they include the work of other processes.
pub trait CounterSource {
    /// Returns the present counters; `None` if there are none (tmpfs, a network filesystem).
    fn read(&self) -> Option<Reading>;

    /// Returns the reason why there are no counters, as a sentence. `None` if there are counters, or if
    /// they were not requested.
    fn absence(&self) -> Option<String> {
        None
    }
}

/// Counters that are not available, with the reason.
#[derive(Debug, Clone)]
pub struct Absent(pub String);

impl CounterSource for Absent {
    fn read(&self) -> Option<Reading> {
        None
    }

    fn absence(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

/// No counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCounters;

impl CounterSource for NoCounters {
    fn read(&self) -> Option<Reading> {
        None
    }
}

/// Work of the device during the timed parts of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delta {
    /// Number of writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Number of flushes; `None` if they are not counted.
    pub flushes: Option<u64>,
}

impl Delta {
    /// Returns the difference between one reading and a later one.
    pub fn between(before: Reading, after: Reading) -> Delta {
        Delta {
            writes: after.writes.saturating_sub(before.writes),
            bytes: after.bytes.saturating_sub(before.bytes),
            flushes: after
                .flushes
                .zip(before.flushes)
                .map(|(a, b)| a.saturating_sub(b)),
        }
    }

    /// Returns the sum of two parts of one row.
    pub fn plus(self, other: Delta) -> Delta {
        Delta {
            writes: self.writes + other.writes,
            bytes: self.bytes + other.bytes,
            flushes: self.flushes.zip(other.flushes).map(|(a, b)| a + b),
        }
    }
}

/// Work of the device while this process did not use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbours {
    /// Length of the observation.
    pub watched: Duration,
    /// Work that the device did for others in that time.
    pub did: Delta,
}

/// Observes the device for `watch` without using it. Returns `None` without counters.
pub fn watch_neighbours(counters: &dyn CounterSource, watch: Duration) -> Option<Neighbours> {
    let before = counters.read()?;
    let start = Instant::now();
    std::thread::sleep(watch);
    let after = counters.read()?;
    Some(Neighbours {
        watched: start.elapsed(),
        did: Delta::between(before, after),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let at = |writes, flushes| Reading {
            writes,
            bytes: writes * 512,
            flushes,
        };
        assert_eq!(Delta::between(at(1, None), at(5, None)).flushes, None);
        assert_eq!(
            Delta::between(at(1, Some(7)), at(5, Some(7))).flushes,
            Some(0)
        );
        let d = Delta::between(at(1, Some(7)), at(5, Some(9)));
        assert_eq!(
            d,
            Delta {
                writes: 4,
                bytes: 2048,
                flushes: Some(2)
            }
        );
        assert_eq!(
            d.plus(d),
            Delta {
                writes: 8,
                bytes: 4096,
                flushes: Some(4)
            }
        );
    }
}
