use logforce_device::Method;
use std::time::Duration;

/// Comparable times: in each turn every method made one commit of the same size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// Measured methods: the default first, then in the order of preference among equals.
    pub methods: Vec<Method>,
    /// Turns in the order of measurement.
    pub turns: Vec<Turn>,
}

/// One commit by each method, in a random order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Bytes of each commit.
    pub bytes: u32,
    /// Time of each commit, in the order of [`Samples::methods`].
    pub times: Vec<Duration>,
}

impl Samples {
    /// Returns the times of the method at `index` for commits of `bytes` bytes.
    pub fn times(&self, index: usize, bytes: u32) -> Vec<Duration> {
        let turns = self.turns.iter().filter(|t| t.bytes == bytes);
        turns.filter_map(|t| t.times.get(index).copied()).collect()
    }

    /// Returns the smallest and the largest measured size, in bytes.
    pub fn sizes(&self) -> Option<(u32, u32)> {
        let sizes = || self.turns.iter().map(|t| t.bytes);
        Some((sizes().min()?, sizes().max()?))
    }
}
