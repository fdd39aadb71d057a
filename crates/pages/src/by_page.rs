//! Maps by page number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
