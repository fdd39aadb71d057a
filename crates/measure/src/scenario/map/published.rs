//! Published figures of the same workload.

/// A published replacement of the flush of a mapping by gathered writes. The figures are factors,
/// because no table of times was published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Source of the figures.
    pub source: &'static str,
    /// Size of the file, bytes.
    pub size: u64,
    /// Lower bound of the time of a commit that flushes the whole mapping, milliseconds.
    pub flush_ms: f64,
    /// Speedup by gathered write-through writes in flight over a program that changed pages in the mapping.
    pub faster_mapped: f64,
    /// Speedup over a program that wrote the pages.
    pub faster_written: f64,
    /// Factor by which they take less processor time of the system: lowest and highest.
    pub less_system: (f64, f64),
}

/// LMDB on Windows.
pub const P4: Published = Published {
    source: "LMDB, ITS#9017, Windows",
    size: 2 << 30,
    flush_ms: 100.0,
    faster_mapped: 5.0,
    faster_written: 2.0,
    less_system: (50.0, 100.0),
};

impl Published {
    /// Returns the figures as a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "Published ({}): a commit that flushes the whole mapping of {} takes over {:.0} ms. Most of it \
             is processor time of the system, and it grows with the size. Sorted and gathered write-through \
             writes in flight are {:.0} times as fast ({:.0} times as fast as plain writes) and take {:.0} to \
             {:.0} times less processor time of the system.",
            self.source,
            logforce_terminal::numbers::bytes(self.size),
            self.flush_ms,
            self.faster_mapped,
            self.faster_written,
            self.less_system.0,
            self.less_system.1
        )
    }
}
