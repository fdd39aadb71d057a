//! Copies of the pages that are read again and again, such as the root of a tree, for each lane of threads.
//! If all threads read a page from one location, each waits for the cache lines that the others have just
//! written: the lock and the reference count. So each lane has its own bytes.

use crate::changes::Image;
use logforce_device::sync::{Apart, AtomicU64, Mutex, MutexGuard, lane};
use logforce_format::{Lsn, planted};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// Number of lanes. Threads in different lanes read without contention.
const LANES: usize = 8;
/// Maximum number of copies in a lane.
const PLACES: usize = 64;
/// Minimum number of copies in a lane. Fewer would not pay off.
const LEAST: usize = 8;

/// All lanes.
pub(super) struct LaneCopies {
    lanes: Vec<Apart<Lane>>,
    page_size: usize,
}

struct Lane {
    /// Pages that have copies, by place, to be checked without the lock.
    numbers: Vec<AtomicU64>,
    copies: Mutex<Vec<Option<Copied>>>,
}

/// Copy of a page's newest version.
struct Copied {
    page: u64,
    /// End of the commit that made the version.
    end: Lsn,
    /// Number of changes of pages in its shard when it was the newest.
    changes: u64,
    image: Image,
    /// True if the copy was read since another page last wanted its place.
    was_used: bool,
}

/// Number that no page has.
const NONE: u64 = u64::MAX;

impl LaneCopies {
    /// Makes lanes for up to `limit` bytes of copies. Returns `None` if that is too little to pay off.
    pub(super) fn new(limit: usize, page_size: usize) -> Option<LaneCopies> {
        let places = (limit / LANES / page_size).min(PLACES);
        if places < LEAST {
            return None;
        }
        let lane = || Lane {
            numbers: (0..places).map(|_| AtomicU64::new(NONE)).collect(),
            copies: Mutex::new((0..places).map(|_| None).collect()),
        };
        Some(LaneCopies {
            lanes: (0..LANES).map(|_| Apart(lane())).collect(),
            page_size,
        })
    }

    /// Returns the maximum number of bytes of all copies.
    pub(super) fn limit(&self) -> usize {
        self.lanes.iter().map(|l| l.numbers.len()).sum::<usize>() * self.page_size
    }

    fn lane(&self) -> &Lane {
        &self.lanes[lane(self.lanes.len())]
    }

    /// Returns the version that a reader at the state `at` sees, if there is a copy. `changes` is the number
    /// of changes of pages in its shard. If it is the same as when the page was copied, no commit that the
    /// reader sees has changed the page since.
    pub(super) fn get(&self, page: u64, at: Lsn, changes: u64) -> Option<Image> {
        let lane = self.lane();
        let place = page as usize % lane.numbers.len();
        if lane.numbers[place].load(Relaxed) != page {
            return None;
        }
        let mut copies = lane.copies();
        let copied = copies[place].as_mut().filter(|c| c.page == page)?;
        let is_newest = planted!("old-copy-shown", true, else copied.changes == changes);
        if !is_newest || copied.end > at {
            return None;
        }
        copied.was_used = true;
        Some(copied.image.clone())
    }

    /// Keeps a copy for the threads of the caller's lane. Does nothing if another page has its place and was
    /// read since the last such attempt.
    pub(super) fn keep(&self, page: u64, end: Lsn, changes: u64, image: &Image) {
        let lane = self.lane();
        let place = page as usize % lane.numbers.len();
        let mut copies = lane.copies();
        if let Some(before) = copies[place].as_mut().filter(|c| c.page != page)
            && std::mem::take(&mut before.was_used)
        {
            return;
        }
        copies[place] = Some(Copied {
            page,
            end,
            changes,
            image: Image::from(&image[..]),
            was_used: false,
        });
        lane.numbers[place].store(page, Relaxed);
    }

    /// Returns the number of bytes of all copies.
    pub(super) fn bytes(&self) -> u64 {
        let held = |lane: &Apart<Lane>| lane.copies().iter().flatten().count();
        let copies: usize = self.lanes.iter().map(held).sum();
        (copies * self.page_size) as u64
    }
}

impl Lane {
    fn copies(&self) -> MutexGuard<'_, Vec<Option<Copied>>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    fn image(byte: u8) -> Image {
        vec![byte; PAGE].into()
    }

    #[test]
    fn a_copy_is_shown_until_pages_of_its_shard_change_and_to_no_older_reader() {
        let near = LaneCopies::new(1 << 20, PAGE).unwrap();
        near.keep(3, Lsn(10), 5, &image(1));
        assert_eq!(near.get(3, Lsn(10), 5), Some(image(1)));
        assert_eq!(near.get(3, Lsn(9), 5), None, "the reader is older");
        assert_eq!(near.get(3, Lsn(20), 6), None, "the page may have changed");
        assert_eq!(
            near.get(3 + PLACES as u64, Lsn(10), 5),
            None,
            "the same place"
        );
        near.keep(3, Lsn(20), 6, &image(2));
        assert_eq!(near.get(3, Lsn(20), 6), Some(image(2)));
        assert_eq!(near.bytes(), PAGE as u64);
    }

    #[test]
    fn what_is_read_keeps_its_place_once() {
        let near = LaneCopies::new(1 << 20, PAGE).unwrap();
        let other = 3 + PLACES as u64;
        let is_kept = |page| near.get(page, Lsn(10), 0).is_some();
        near.keep(3, Lsn(10), 0, &image(1));
        near.keep(other, Lsn(10), 0, &image(2));
        assert!(is_kept(other), "the first page was not read");
        near.keep(3, Lsn(10), 0, &image(1));
        assert!(is_kept(other));
        near.keep(3, Lsn(10), 0, &image(1));
        near.keep(3, Lsn(10), 0, &image(1));
        assert!(is_kept(3));
    }

    #[test]
    fn copies_share_no_memory_with_the_page() {
        let near = LaneCopies::new(1 << 20, PAGE).unwrap();
        let page = image(1);
        near.keep(0, Lsn(10), 0, &page);
        let copy = near.get(0, Lsn(10), 0).unwrap();
        assert!(!std::sync::Arc::ptr_eq(&page, &copy));
    }

    #[test]
    fn it_takes_no_more_than_it_may() {
        for (limit, page_size) in [
            (0, PAGE),
            (LANES * LEAST * PAGE - 1, PAGE),
            (1 << 20, 64 << 10),
        ] {
            assert!(LaneCopies::new(limit, page_size).is_none(), "{limit}");
        }
        let near = LaneCopies::new(LANES * LEAST * PAGE, PAGE).unwrap();
        assert_eq!(near.limit(), LANES * LEAST * PAGE);
        let near = LaneCopies::new(1 << 30, PAGE).unwrap();
        assert_eq!(near.limit(), LANES * PLACES * PAGE);
        (0..10_000).for_each(|page| near.keep(page, Lsn(1), 0, &image(1)));
        assert!(near.bytes() <= near.limit() as u64);
    }
}
