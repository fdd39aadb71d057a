//! Objects that are listed and cannot be read.

use crate::key::Key;
use std::collections::BTreeMap;

/// Number of times that an object may be listed and then missing. One that was replaced is missing once.
const MAX: u8 = 8;

/// Misses of each object since the last progress.
///
/// A reading that misses a listed object begins anew. Without a limit it would do so for ever when the object
/// stays listed: a dangling link, for instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Misses(BTreeMap<Key, u8>);

impl Misses {
    /// Counts a miss. Returns true if the object was missed too often.
    pub(super) fn note(&mut self, key: &Key) -> bool {
        let count = self.0.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count >= MAX
    }

    /// Forgets the misses, after progress.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
