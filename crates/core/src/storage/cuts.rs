//! Ranges of the log that openings gave up at damage.

use logforce_format::Lsn;

/// Ranges that were given up, as their markers' names say.
pub(crate) type Cuts = Vec<(Lsn, Lsn)>;

/// Whether a part of `[start, end)` was given up.
pub(crate) fn holds_some(cuts: &Cuts, start: Lsn, end: Lsn) -> bool {
    cuts.iter().any(|&(from, to)| from < end && start < to)
}
