//! Operations that are measured.

/// An operation, with its number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Load of ascending keys into an empty store, [`LOAD`] of them in a durable transaction.
    Load,
    /// Puts of random keys, each durable by itself.
    Put(usize),
    /// Gets of random keys, each in a separate read transaction.
    Get(usize),
    /// Gets of random keys, [`MANY`] of them in a read transaction.
    GetMany(usize),
    /// Scans of [`SCAN`] keys upwards from a random one; each key counts.
    Scan(usize),
}

/// Number of keys in a transaction of the load.
pub const LOAD: usize = 1000;
/// Number of gets in one read transaction.
pub const MANY: usize = 100;
/// Number of keys in a scan.
pub const SCAN: usize = 1000;

impl Operation {
    /// Returns the name in the table.
    pub fn in_words(self) -> String {
        match self {
            Operation::Load => format!("load, {LOAD} in a transaction"),
            Operation::Put(_) => "durable puts".to_owned(),
            Operation::Get(_) => "gets".to_owned(),
            Operation::GetMany(_) => format!("gets, {MANY} in a snapshot"),
            Operation::Scan(_) => format!("keys scanned, {SCAN} a scan"),
        }
    }

    /// Returns the number of threads.
    pub fn threads(self) -> usize {
        match self {
            Operation::Load => 1,
            Operation::Put(threads)
            | Operation::Get(threads)
            | Operation::GetMany(threads)
            | Operation::Scan(threads) => threads,
        }
    }

    /// Returns the target of the example tree: a multiple of a store's rate, or of the best store's
    /// where none is named.
    pub fn target(self) -> Option<(f64, Option<&'static str>)> {
        match self {
            Operation::Put(16) => Some((4.0, None)),
            Operation::Put(64) => Some((8.0, None)),
            Operation::Get(_) | Operation::GetMany(_) => Some((0.5, Some("lmdb"))),
            _ => None,
        }
    }
}
