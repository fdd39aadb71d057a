//! Worker threads that share the cases of a test among the processors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Calls `work` for each number below `count`, in several threads, each with its own state from `begin`.
/// Returns the states. After a panic no thread takes another number.
pub fn share<S: Send>(
    count: usize,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let run = || {
        let failing = Failing(&failed);
        let mut state = begin();
        loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= count || failed.load(Relaxed) {
                drop(failing);
                return state;
            }
            work(&mut state, n);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, S>| {
            t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))
        };
        threads.into_iter().map(join).collect()
    })
}

struct Failing<'a>(&'a AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

/// Returns true if every case is to be checked in every way.
pub fn all() -> bool {
    std::env::var("LOGFORCE_EXHAUSTIVE").is_ok_and(|v| v == "all")
}

/// Returns true if cases that hardly differ from another are tried as well.
pub fn thorough() -> bool {
    all() || logforce_sim::is_deep()
}
