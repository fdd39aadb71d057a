use logforce_device::Method;
use std::time::Duration;

/// Times that can be compared: in each turn every method did one commit of the same size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// The default method first, then in order of preference among equals.
    pub methods: Vec<Method>,
    /// In the order in which they were measured.
    pub turns: Vec<Turn>,
}

/// One commit by each method, in an order of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Bytes of each commit.
    pub bytes: u32,
    /// How long each took, in the order of [`Samples::methods`].
    pub times: Vec<Duration>,
}

impl Samples {
    /// The times of the method at `index` for commits of `bytes` bytes.
    pub fn times(&self, index: usize, bytes: u32) -> Vec<Duration> {
        let turns = self.turns.iter().filter(|t| t.bytes == bytes);
        turns.filter_map(|t| t.times.get(index).copied()).collect()
    }

    /// The smallest and the largest size that was measured, in bytes.
    pub fn sizes(&self) -> Option<(u32, u32)> {
        let sizes = || self.turns.iter().map(|t| t.bytes);
        Some((sizes().min()?, sizes().max()?))
    }
}
