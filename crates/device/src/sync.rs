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

#[cfg(not(any(shuttle, loom)))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Mutex, MutexGuard},
    thread_local,
};

#[cfg(shuttle)]
pub use shuttle::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Mutex, MutexGuard},
    thread_local,
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
