//! Split shared state, so that threads seldom contend.

use std::ops::Deref;

/// Returns the index of the part, of `count` parts, that the calling thread uses. A thread gets the same
/// index each time, until its thread-local values are destroyed. Indexes are given out in turn at a thread's
/// first call, so up to `count` threads do not share a part.
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
    // A thread that is ending has no thread-local values any more.
    mine.unwrap_or(0) % count
}

/// Works as in a usual build, but uses the number that a thread has in its schedule, whichever schedules ran
/// before. Otherwise a schedule could not be repeated.
#[cfg(shuttle)]
pub fn lane(count: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let mut hasher = DefaultHasher::new();
    shuttle::thread::current().id().hash(&mut hasher);
    (hasher.finish() % count as u64) as usize
}

/// Value that one thread writes often, kept apart from the data of other threads. Its alignment covers two
/// cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
