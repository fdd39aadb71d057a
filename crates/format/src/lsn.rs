use std::fmt;

/// Log sequence number: a byte position in the log's endless stream, in which headers and padding
/// count. Never reused once what lay there was durable or readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Where a log begins. The first segment's header lies here, so no record ever does.
    pub const ORIGIN: Lsn = Lsn(0);
    /// Above every position.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The position `bytes` further on; stops at [`Lsn::MAX`].
    pub fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0.saturating_add(bytes))
    }

    /// Bytes from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
