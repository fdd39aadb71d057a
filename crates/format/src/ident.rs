use std::fmt;

/// Identifies a log: 16 random bytes, drawn when the log is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in self.0 {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}

/// One opening of the log for writing.
///
/// The counter orders openings; the nonce tells two openings apart that had the same counter, as
/// happens when a copied directory is opened in two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Epoch {
    /// 1 for the first opening; 0 means "before any".
    pub counter: u64,
    /// Random.
    pub nonce: u64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.counter, self.nonce)
    }
}
