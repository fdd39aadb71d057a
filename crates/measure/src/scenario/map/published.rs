//! What was published of the same workload.

/// A published replacement of a mapping's flush by gathered writes; as factors, for no table of times
/// was published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Where it comes from.
    pub source: &'static str,
    /// Size of the file, bytes.
    pub size: u64,
    /// A commit by flushing the whole mapping takes longer than this, milliseconds.
    pub flush_ms: f64,
    /// Gathered writes in flight, written through, are so many times as fast where pages were changed
    /// in the mapping before.
    pub faster_mapped: f64,
    /// The same where pages were written before.
    pub faster_written: f64,
    /// And take so many times less processor time of the system.
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
    /// In a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "Published ({}): a commit that flushes the whole mapping of {} takes over {:.0} ms, most \
             of it processor time of the system and growing with the size; sorted gathered writes in \
             flight, written through, are {:.0} times as fast ({:.0} times against plain writes), with \
             {:.0} to {:.0} times less processor time of the system.",
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
