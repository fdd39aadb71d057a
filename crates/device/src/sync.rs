//! What the log shares between its threads with: mutexes, atomics, fences, values of a thread.
//!
//! In a usual build these are std's, by name. With `--cfg shuttle` they are shuttle's and with
//! `--cfg loom` loom's, so that a checker of interleavings runs the shipped code: each lock, load
//! and store is a point where it may let another thread go on. [`Runtime`](crate::Runtime) does the
//! same for waiting and waking, threads and time.
//!
//! Not here, and std's everywhere: `Arc` (both checkers run on std's: loom's own cannot hold a `dyn`),
//! and what only counts. The statistics decide nothing, and a scheduling point at each of their
//! counters would make every schedule several times as long, for nothing.

mod lane;

pub use lane::{Apart, lane};

#[cfg(not(any(shuttle, loom)))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Mutex, MutexGuard},
    thread_local,
};

#[cfg(shuttle)]
pub use {
    counted::{Mutex, locks_taken_here},
    shuttle::sync::MutexGuard,
    shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    shuttle::thread_local,
};

// What loom checks keeps no values of a thread.
#[cfg(all(loom, not(shuttle)))]
pub use {
    loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    loom::sync::{Mutex, MutexGuard},
    std::thread_local,
};

/// Nothing, but under loom a fence: loom takes sequentially consistent loads and stores for
/// acquire and release, and knows a total order of fences only. For places that rely on the total
/// order of accesses.
#[inline(always)]
pub fn total_order() {
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
}

/// Shuttle's mutex, counted: tests assert how many locks an operation of the log takes.
#[cfg(shuttle)]
mod counted {
    use std::cell::Cell;
    use std::sync::LockResult;

    shuttle::thread_local! {
        static TAKEN: Cell<u64> = Cell::new(0);
    }

    /// How many mutexes the calling thread has locked so far.
    pub fn locks_taken_here() -> u64 {
        TAKEN.with(Cell::get)
    }

    /// See [`shuttle::sync::Mutex`].
    #[derive(Debug, Default)]
    pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// See [`shuttle::sync::Mutex::new`].
        pub const fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }
    }

    impl<T: ?Sized> Mutex<T> {
        /// See [`shuttle::sync::Mutex::lock`].
        pub fn lock(&self) -> LockResult<shuttle::sync::MutexGuard<'_, T>> {
            TAKEN.with(|taken| taken.set(taken.get() + 1));
            self.0.lock()
        }
    }
}
