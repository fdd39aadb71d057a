//! Parts of something shared, so that threads seldom meet.

use std::ops::Deref;

/// Which of `count` parts of something the calling thread uses: the same one each time, until its
/// thread-local values are destroyed. Threads take turns when they first ask, so up to `count` threads
/// have one each.
///
/// `count` must not be 0.
#[cfg(not(shuttle))]
pub fn lane(count: usize) -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mine = MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    });
    // A thread that is ending has no thread-locals any more.
    mine.unwrap_or(0) % count
}

/// As in a usual build, but by the number that a thread has in its schedule, whichever schedules ran
/// before: so that a schedule can be run again.
#[cfg(shuttle)]
pub fn lane(count: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let mut hasher = DefaultHasher::new();
    shuttle::thread::current().id().hash(&mut hasher);
    (hasher.finish() % count as u64) as usize
}

/// What one thread writes again and again, away from what others do: on a cache line of its own, and
/// on the one beside it, which processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
