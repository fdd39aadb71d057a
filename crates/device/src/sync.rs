//! Primitives that the log shares data between its threads with: mutexes, atomics, fences, thread-local
//! values.
//!
//! In a usual build these are re-exports of std. With `--cfg shuttle` they are shuttle's and with `--cfg
//! loom` loom's, so that a checker of interleavings runs the shipped code. Each lock, load and store is a
//! point where the checker may switch to another thread. [`Runtime`](crate::Runtime) does the same for
//! waiting and waking, threads and time.
//!
//! Two things are std's in every build. The first is `Arc`: both checkers run with std's, and loom's own
//! cannot hold a `dyn`. The second is statistics: they decide nothing, and a scheduling point at each of
//! their counters would only make every schedule several times as long.

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

// Code that loom checks keeps no thread-local values.
#[cfg(all(loom, not(shuttle)))]
pub use {
    loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    loom::sync::{Mutex, MutexGuard},
    std::thread_local,
};

/// Does nothing, except under loom, where it is a fence. Loom treats sequentially consistent loads and stores
/// as acquire and release, and has a total order of fences only. For code that relies on the total order of
/// accesses.
#[inline(always)]
pub fn total_order() {
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
}

/// Shuttle's mutex with a counter: tests assert how many locks an operation of the log takes.
#[cfg(shuttle)]
mod counted {
    use std::cell::Cell;
    use std::sync::LockResult;

    shuttle::thread_local! {
        static TAKEN: Cell<u64> = Cell::new(0);
    }

    /// Returns the number of mutexes that the calling thread has locked so far.
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
