//! Contents of places, in memory.

use crate::changes::Image;
use logforce_device::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::PoisonError;

/// What the file holds at places that were read or written lately: nodes of the page table, and
/// pages. Bounded; what was used since its last turn gets another one (a clock), so nodes outlive
/// pages that are read once.
///
/// A place that is used again gets its new contents here before anything reaches it, so what is here
/// of a place that is reached is right.
pub(crate) struct Cache {
    shards: Vec<Mutex<Shard>>,
}

/// Threads that read different places seldom meet.
const SHARDS: usize = 16;

#[derive(Default)]
struct Shard {
    /// Bytes that it may hold.
    limit: usize,
    bytes: usize,
    contents: HashMap<u64, Cached>,
    /// The places in `contents`, each once.
    clock: VecDeque<u64>,
}

struct Cached {
    image: Image,
    was_used: bool,
}

impl Cache {
    /// One that holds up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let shard = || Shard {
            limit: limit / SHARDS,
            ..Shard::default()
        };
        Cache {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
        }
    }

    fn shard(&self, place: u64) -> logforce_device::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[place as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the place holds, if that is in memory.
    pub(crate) fn get(&self, place: u64) -> Option<Image> {
        let mut shard = self.shard(place);
        let cached = shard.contents.get_mut(&place)?;
        cached.was_used = true;
        Some(cached.image.clone())
    }

    /// What the place holds from now on.
    pub(crate) fn insert(&self, place: u64, image: Image) {
        let mut shard = self.shard(place);
        shard.bytes += image.len();
        let cached = Cached {
            image,
            was_used: false,
        };
        match shard.contents.insert(place, cached) {
            Some(before) => shard.bytes -= before.image.len(),
            None => shard.clock.push_back(place),
        }
        while shard.bytes > shard.limit {
            shard.evict_one();
        }
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |place| self.shard(place).bytes as u64;
        (0..SHARDS as u64).map(bytes).sum()
    }
}

impl Shard {
    fn evict_one(&mut self) {
        let Some(place) = self.clock.pop_front() else {
            return;
        };
        match self.contents.get_mut(&place) {
            Some(cached) if cached.was_used => {
                cached.was_used = false;
                self.clock.push_back(place);
            }
            _ => {
                if let Some(gone) = self.contents.remove(&place) {
                    self.bytes -= gone.image.len();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(byte: u8) -> Image {
        vec![byte; 100].into()
    }

    #[test]
    fn holds_what_fits_and_keeps_what_is_used() {
        let cache = Cache::new(400 * SHARDS);
        let place = |n: u64| n * SHARDS as u64;
        for n in 0..1000 {
            cache.insert(place(n), image(n as u8));
            if n > 0 {
                assert!(cache.get(place(0)).is_some(), "used and gone");
            }
            assert!(cache.bytes() <= 400);
        }
        assert_eq!(cache.get(place(999)), Some(image(999u64 as u8)));
        assert_eq!(cache.get(place(1)), None);
    }

    #[test]
    fn a_place_holds_what_was_put_there_last() {
        let cache = Cache::new(10_000);
        for n in 0..100 {
            cache.insert(7, image(n));
        }
        assert_eq!(cache.get(7), Some(image(99)));
        assert_eq!(cache.bytes(), 100);
        let none = Cache::new(0);
        none.insert(7, image(1));
        none.insert(7, image(2));
        assert_eq!((none.get(7), none.bytes()), (None, 0));
    }
}
