//! Changes of a transaction, and maps by page number.

use logforce_format::Resize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Contents of a page. Never changed once they are shared.
pub(crate) type Image = Arc<[u8]>;

/// Purpose of reading a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// The page is about to get new contents, so keeping these in a cache would only evict others.
    Change,
}

/// Change of one page.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// New contents of the page. `before` holds its contents when the transaction began, if they were read.
    /// With them, a log may need only the difference.
    Write { image: Image, before: Option<Image> },
    /// The page reads as zeroes from now on.
    Discard,
}

/// All changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Changes by page number.
    pub(crate) pages: BTreeMap<u64, Change>,
    /// Change of the number of pages, besides pages that are written.
    pub(crate) resize: Resize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.resize == Resize::NONE
    }

    /// Returns the highest page that is written.
    pub(crate) fn last_written(&self) -> Option<u64> {
        let writes = |(_, change): &(&u64, &Change)| matches!(change, Change::Write { .. });
        self.pages.iter().rfind(writes).map(|(page, _)| *page)
    }

    /// Returns the end that the transaction sets for the file, if it sets one. Another commit that wrote a
    /// page at or above that end is one that this transaction has not seen.
    pub(crate) fn end(&self) -> Option<u64> {
        let resize = self.resize;
        (resize != Resize::NONE).then_some(resize.drop_from.min(resize.at_least))
    }

    /// Returns the number of pages after these changes to a file of `before` pages.
    pub(crate) fn page_count(&self, before: u64) -> u64 {
        self.resize.page_count(before, self.last_written())
    }

    /// Returns the pages that these changes add to a file of `before` pages, or that they drop first.
    pub(crate) fn added(&self, before: u64) -> Range<u64> {
        before.min(self.resize.drop_from)..self.page_count(before)
    }
}

/// Map by page number or by place. It is searched under a lock for each page that is read, so the hash is one
/// multiplication. The embedding program chooses the page numbers, so no attacker can make them collide.
pub(crate) type ByPage<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// Hasher that multiplies by 2^64 divided by the golden ratio, an odd number whose bits are spread. It folds
/// the upper bits, which depend on all others, into the lower ones.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_that_follow_each_other_and_multiples_are_spread() {
        let hasher = BuildHasherDefault::<PageHasher>::default();
        for step in [1, 16, 256, 4096, 1 << 20, 1 << 32] {
            let hash = |n: u64| hasher.hash_one(n * step);
            // Hash tables use the lower bits for the slot and the upper bits for the tag.
            let places: HashSet<u64> = (0..1024).map(|n| hash(n) % 1024).collect();
            let tags: HashSet<u64> = (0..1024).map(|n| hash(n) >> 57).collect();
            // Random hashes would give 647.
            assert!(places.len() > 400, "{step}: {} places", places.len());
            assert!(tags.len() > 100, "{step}: {} tags", tags.len());
        }
    }
}
