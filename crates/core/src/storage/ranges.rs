//! Ranges of the log that openings have given up at damage.

use logforce_format::Lsn;

/// Ranges that were given up, from the names of their markers.
pub(crate) type GivenUpRanges = Vec<(Lsn, Lsn)>;

/// Whether a part of `[start, end)` was given up.
pub(crate) fn overlap_any(ranges: &GivenUpRanges, start: Lsn, end: Lsn) -> bool {
    ranges.iter().any(|&(from, to)| from < end && start < to)
}
