use std::fmt;

/// Log sequence number: a byte position in the log's endless stream, which includes headers and padding. A
/// position is never reused once its data was durable or readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Start of a log. The first segment's header lies here, so no record ever does.
    pub const ORIGIN: Lsn = Lsn(0);
    /// Position above every other.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// Returns the position `bytes` further on; stops at [`Lsn::MAX`].
    pub fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0.saturating_add(bytes))
    }

    /// Returns the number of bytes from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
