//! Committed states.

use logforce_format::Lsn;

/// A committed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommitPoint {
    /// The end of the last commit's record, which is the state's number.
    pub(super) end: Lsn,
    /// The number of that commit.
    pub(super) commit: u64,
    /// Pages have numbers below this one.
    pub(super) page_count: u64,
}
