use std::fmt;

/// Identifier of a log: 16 random bytes, drawn when the log is made.
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

/// Opening of the log for writing.
///
/// The counter orders openings. The nonce distinguishes two openings with the same counter, which happens
/// when copies of a directory are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Epoch {
    /// Number of the opening: 1 for the first; 0 means "before any".
    pub counter: u64,
    /// Random number.
    pub nonce: u64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.counter, self.nonce)
    }
}
