//! Changes of a transaction, and maps by page number.

use logforce_format::Resize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// The contents of a page. Never changed once it is shared.
pub(crate) type Image = Arc<[u8]>;

/// The change of one page.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// The page's new contents. `before` is what it held when the transaction began, if that was
    /// read: the difference may be all that a log needs.
    Write { image: Image, before: Option<Image> },
    /// It reads as zeroes from now on.
    Discard,
}

/// All changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// By page number.
    pub(crate) pages: BTreeMap<u64, Change>,
    /// How the number of pages changes besides.
    pub(crate) resize: Resize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.resize == Resize::NONE
    }

    /// The highest page that is written.
    pub(crate) fn last_written(&self) -> Option<u64> {
        let writes = |(_, change): &(&u64, &Change)| matches!(change, Change::Write { .. });
        self.pages.iter().rfind(writes).map(|(page, _)| *page)
    }

    /// Where the file is to end, if that was set: another commit that wrote a page at or above is one
    /// that this one has not seen.
    pub(crate) fn end(&self) -> Option<u64> {
        let resize = self.resize;
        (resize != Resize::NONE).then_some(resize.drop_from.min(resize.at_least))
    }

    /// The number of pages after this, where there were `before`.
    pub(crate) fn page_count(&self, before: u64) -> u64 {
        self.resize.page_count(before, self.last_written())
    }

    /// The pages that the file has after this and had not before, where it had `before`, or that this
    /// drops first.
    pub(crate) fn added(&self, before: u64) -> Range<u64> {
        before.min(self.resize.drop_from)..self.page_count(before)
    }
}

/// A map by page number, or by place. It is looked into for each page that is read, under a lock: so
/// the hash is a multiplication. Page numbers are the embedding program's own, nobody chooses them to
/// collide.
pub(crate) type ByPage<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// Multiplies by an odd number with its bits spread (that of 2^64 and the golden ratio), and folds the
/// upper bits, which depend on all others, into the lower ones.
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
            // As hash tables use it: the lower bits for the place, the upper for the tag.
            let places: HashSet<u64> = (0..1024).map(|n| hash(n) % 1024).collect();
            let tags: HashSet<u64> = (0..1024).map(|n| hash(n) >> 57).collect();
            // Of random ones, 647.
            assert!(places.len() > 400, "{step}: {} places", places.len());
            assert!(tags.len() > 100, "{step}: {} tags", tags.len());
        }
    }
}
