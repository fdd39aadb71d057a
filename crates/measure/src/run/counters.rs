//! The block device's own counters: what really went to it.

use std::time::{Duration, Instant};

/// One reading of a device's counters, all since it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Completed cache flushes; `None` where the system does not count them.
    pub flushes: Option<u64>,
}

/// Reads the counters of the device under a directory. They are the whole device's: what other
/// processes do to it counts too.
pub trait CounterSource {
    /// The counters now; `None` where there are none (tmpfs, a network filesystem).
    fn read(&self) -> Option<Reading>;

    /// Why there are none, as a sentence; `None` where there are some, or nobody asked.
    fn absence(&self) -> Option<String> {
        None
    }
}

/// Counters that cannot be had, and why.
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

/// What the device did during the timed parts of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delta {
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Flushes; `None` where they are not counted.
    pub flushes: Option<u64>,
}

impl Delta {
    /// From one reading to a later one.
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

    /// The sum of two parts of one row.
    pub fn plus(self, other: Delta) -> Delta {
        Delta {
            writes: self.writes + other.writes,
            bytes: self.bytes + other.bytes,
            flushes: self.flushes.zip(other.flushes).map(|(a, b)| a + b),
        }
    }
}

/// What the device did while this process asked nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbours {
    /// How long was looked.
    pub watched: Duration,
    /// What others did meanwhile.
    pub did: Delta,
}

/// Watches the device for `watch` without using it.
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
