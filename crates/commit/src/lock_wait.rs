//! Waiting until another writer has closed the log.

use logforce_device::Runtime;
use logforce_device::sync::AtomicU32;
use std::time::Duration;

/// Longest time between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Repeats `attempt` while `is_locked` returns true for its result, for `at_most` this long. Each attempt
/// starts from scratch, because the other writer may have created or moved the log meanwhile.
#[doc(hidden)]
pub fn wait_for_lock<T>(
    runtime: &dyn Runtime,
    at_most: Duration,
    is_locked: impl Fn(&T) -> bool,
    mut attempt: impl FnMut() -> T,
) -> T {
    let began = runtime.now();
    let mut pause = Duration::from_millis(1);
    loop {
        let result = attempt();
        let left = at_most.saturating_sub(runtime.now().saturating_sub(began));
        if left.is_zero() || !is_locked(&result) {
            return result;
        }
        // No thread wakes this word, because the other writer may be another process.
        runtime.wait(&AtomicU32::new(0), 0, Some(pause.min(left)));
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
