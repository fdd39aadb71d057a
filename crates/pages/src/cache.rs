//! Bounded caches of the contents of places.

use crate::changes::ByPage;
use crate::changes::Image;
use logforce_device::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// Cache of contents that were read or written recently, limited by bytes. It evicts by the clock algorithm:
/// contents that were used since their last turn get another one. So contents that are read often outlive
/// contents that are read once.
pub(crate) struct Clock<T = Image> {
    /// Maximum number of bytes.
    limit: usize,
    bytes: usize,
    contents: ByPage<Cached<T>>,
    /// Places in `contents`, each once, in the order of their turns.
    turns: VecDeque<u64>,
    /// Number of places in `contents` whose contents were forgotten.
    forgotten: usize,
}

/// Contents that a clock can hold.
pub(crate) trait Contents {
    /// Returns the number of bytes of the contents.
    fn bytes(&self) -> usize;
}

impl Contents for Image {
    fn bytes(&self) -> usize {
        self.len()
    }
}

struct Cached<T> {
    /// `None` from the moment the contents are forgotten until their turn.
    held: Option<T>,
    was_used: bool,
}

impl<T: Contents> Cached<T> {
    fn bytes(&self) -> usize {
        self.held.as_ref().map_or(0, T::bytes)
    }
}

impl<T: Contents> Clock<T> {
    /// Creates a clock that holds up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Clock {
            limit,
            bytes: 0,
            contents: ByPage::default(),
            turns: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Returns the contents of the place if they are in memory.
    pub(crate) fn get(&mut self, place: u64) -> Option<&T> {
        let cached = self.contents.get_mut(&place)?;
        cached.was_used = true;
        cached.held.as_ref()
    }

    /// Sets the contents of the place.
    pub(crate) fn insert(&mut self, place: u64, held: T) {
        self.bytes += held.bytes();
        let cached = Cached {
            held: Some(held),
            was_used: false,
        };
        match self.contents.insert(place, cached) {
            Some(before) => {
                self.bytes -= before.bytes();
                self.forgotten -= usize::from(before.held.is_none());
            }
            None => self.turns.push_back(place),
        }
        while self.bytes > self.limit {
            self.evict_one();
        }
    }

    /// Forgets the contents of the place, which are about to change.
    pub(crate) fn remove(&mut self, place: u64) {
        let Some(cached) = self.contents.get_mut(&place) else {
            return;
        };
        let Some(held) = cached.held.take() else {
            return;
        };
        cached.was_used = false;
        self.bytes -= held.bytes();
        self.forgotten += 1;
        if self.forgotten > self.contents.len() / 2 + 64 {
            self.sweep();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Clock::new(self.limit);
    }

    /// Returns the number of bytes of all contents.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn evict_one(&mut self) {
        let Some(place) = self.turns.pop_front() else {
            return;
        };
        match self.contents.get_mut(&place) {
            Some(cached) if cached.was_used => {
                cached.was_used = false;
                self.turns.push_back(place);
            }
            _ => {
                if let Some(gone) = self.contents.remove(&place) {
                    self.bytes -= gone.bytes();
                    self.forgotten -= usize::from(gone.held.is_none());
                }
            }
        }
    }

    /// Removes forgotten places from the queue of turns.
    fn sweep(&mut self) {
        self.contents.retain(|_, cached| cached.held.is_some());
        let contents = &self.contents;
        self.turns.retain(|place| contents.contains_key(place));
        self.forgotten = 0;
    }
}

impl<T> std::fmt::Debug for Clock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock")
            .field("bytes", &self.bytes)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Clock that threads share. Each shard has its own lock.
///
/// A copy-on-write file keeps pages and nodes of its page table here. A reused place gets its new contents
/// here before any header or node refers to it. So the contents of every place that is referred to are
/// current.
pub(crate) struct Cache {
    shards: Vec<Mutex<Clock>>,
}

/// Number of shards. Threads that read different places seldom use the same lock.
const SHARDS: usize = 16;

impl Cache {
    /// Creates a cache that holds up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Cache {
            shards: (0..SHARDS)
                .map(|_| Mutex::new(Clock::new(limit / SHARDS)))
                .collect(),
        }
    }

    fn shard(&self, place: u64) -> MutexGuard<'_, Clock> {
        let shard = &self.shards[place as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the contents of the place if they are in memory.
    pub(crate) fn get(&self, place: u64) -> Option<Image> {
        self.shard(place).get(place).cloned()
    }

    /// Sets the contents of the place.
    pub(crate) fn insert(&self, place: u64, image: Image) {
        self.shard(place).insert(place, image);
    }

    /// Returns the number of bytes of all contents.
    pub(crate) fn bytes(&self) -> u64 {
        (0..SHARDS as u64).map(|s| self.shard(s).bytes()).sum()
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
    fn what_is_forgotten_is_gone_and_leaves_nothing_behind() {
        let mut clock = Clock::new(400);
        for n in 0..10_000 {
            clock.insert(n, image(1));
            clock.remove(n);
            clock.remove(n);
            assert!(clock.get(n).is_none() && clock.bytes() == 0);
        }
        assert!(clock.contents.len() < 200 && clock.turns.len() < 200);
        // Inserting it again reuses its old turn.
        for n in 0..3 {
            clock.remove(9_999);
            clock.insert(9_999, image(n));
        }
        assert_eq!(clock.get(9_999), Some(&image(2)));
        for n in 0..1000 {
            clock.insert(n, image(2));
            assert!(clock.bytes() <= 400);
        }
        assert_eq!(clock.contents.len(), clock.turns.len());
        assert_eq!((clock.contents.len(), clock.forgotten), (4, 0));
        clock.clear();
        clock.insert(3, image(3));
        assert_eq!(clock.get(3), Some(&image(3)));
        assert_eq!(clock.bytes(), 100);
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
