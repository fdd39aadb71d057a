//! Waiting on a word by mutexes and condition variables, for systems whose own call for that is private or
//! too new.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Number of places; a power of two. Words that share a place wake each other needlessly, which is allowed.
const PLACES: usize = 64;

struct Place {
    lock: Mutex<()>,
    changed: Condvar,
}

static ALL: [Place; PLACES] = [const {
    Place {
        lock: Mutex::new(()),
        changed: Condvar::new(),
    }
}; PLACES];

fn place(word: &AtomicU32) -> &'static Place {
    let address = std::ptr::from_ref(word) as usize;
    // Words have four bytes, so the lowest two bits are zero.
    &ALL[(address >> 2) % PLACES]
}

/// Sleeps while the word is `seen`, until woken or until the time is up; may return early.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let place = place(word);
    let held = place.lock.lock().unwrap_or_else(PoisonError::into_inner);
    // Checked under the lock. The thread that changes the word takes the lock afterwards to wake. So it finds
    // this thread asleep, or this thread finds the word changed.
    if word.load(Ordering::SeqCst) != seen {
        return;
    }
    match timeout {
        None => drop(place.changed.wait(held)),
        // A limit, because a longer time may be more than a system can represent; a waiting thread checks
        // again.
        Some(time) => drop(
            place
                .changed
                .wait_timeout(held, time.min(Duration::from_secs(86_400))),
        ),
    }
}

/// Wakes all threads that wait on the word. Used to wake a single one as well, because other words may share
/// its place.
pub fn wake(word: &AtomicU32) {
    let place = place(word);
    drop(place.lock.lock().unwrap_or_else(PoisonError::into_inner));
    place.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn a_wait_ends_by_a_change_a_wake_or_the_time() {
        let word = Arc::new(AtomicU32::new(1));
        wait(&word, 0, None);
        let began = Instant::now();
        wait(&word, 1, Some(Duration::from_millis(10)));
        assert!(began.elapsed() < Duration::from_secs(10));
        for round in 1..200 {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let word = Arc::clone(&word);
                    std::thread::spawn(move || {
                        while word.load(Ordering::SeqCst) == round {
                            wait(&word, round, None);
                        }
                    })
                })
                .collect();
            word.store(round + 1, Ordering::SeqCst);
            wake(&word);
            for thread in threads {
                thread.join().unwrap();
            }
        }
    }
}
