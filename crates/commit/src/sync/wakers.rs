//! Tasks that wait for a watermark.

use crate::sync::reason::Reason;
use logforce_device::planted;
use logforce_device::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, fence, thread_local};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;
use std::task::Waker;

/// Tasks that wait for a watermark to reach a position, such as an LSN.
///
/// A task registers, then checks the watermark again. A writer moves the watermark, then wakes tasks. So at
/// least one of the two sees the other.
#[derive(Default)]
pub struct Wakers {
    count: AtomicUsize,
    next: AtomicU64,
    waiting: Mutex<BTreeMap<(u64, u64), Waker>>,
}

/// A task's registration with [`Wakers`].
#[derive(Debug, Clone, Copy)]
pub struct WakerId {
    at: u64,
    number: u64,
}

impl Wakers {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task that is woken once the watermark has reached `at`. If `id` is an existing
    /// registration, replaces its waker.
    pub fn register(&self, at: u64, id: &mut Option<WakerId>, waker: &Waker) {
        let id = id.get_or_insert_with(|| WakerId {
            at,
            number: self.next.fetch_add(1, Relaxed),
        });
        // Clones and drops wakers without the mutex, because both may run the executor's code.
        let waker = waker.clone();
        let mut waiting = self.waiting();
        let before = waiting.insert((id.at, id.number), waker);
        let before = if planted!("first-waker-kept")
            && let Some(first) = before
        {
            waiting.insert((id.at, id.number), first)
        } else {
            before
        };
        self.count.store(waiting.len(), SeqCst);
        drop(waiting);
        drop(before);
        if !planted!("order-register") {
            fence(SeqCst);
        }
    }

    /// Removes a registration.
    pub fn deregister(&self, id: WakerId) {
        let mut waiting = self.waiting();
        let waker = waiting.remove(&(id.at, id.number));
        self.count.store(waiting.len(), SeqCst);
        drop(waiting);
        // Drops the waker without the mutex, because dropping it may run the executor's code.
        drop(waker);
    }

    /// Wakes the tasks that wait for `reached` or a lower position.
    #[inline]
    pub fn wake_to(&self, reached: u64, why: impl Reason) {
        if why.is_forgotten() {
            return;
        }
        if !planted!("order-wake") {
            fence(SeqCst);
        }
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let woken = {
            let mut waiting = self.waiting();
            let first_left = planted!("wake-below-only", reached, else reached + 1);
            let rest = waiting.split_off(&(first_left, 0));
            let woken = std::mem::replace(&mut *waiting, rest);
            self.count.store(waiting.len(), SeqCst);
            woken
        };
        woken.into_values().for_each(wake);
    }

    /// Wakes all tasks.
    #[inline]
    pub fn wake_all(&self, why: impl Reason) {
        self.wake_to(u64::MAX - 1, why);
    }
}

thread_local! {
    /// True while the thread calls a waker.
    static IS_WAKING: Cell<bool> = const { Cell::new(false) };
}

/// Wakes a task. Catches a panic of its executor: otherwise the other tasks would not be woken. The caller
/// must not hold a lock.
pub fn wake(waker: Waker) {
    let before = IS_WAKING.with(|waking| waking.replace(true));
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    IS_WAKING.with(|waking| waking.set(before));
}

/// Returns true if the thread is calling a waker.
pub fn is_waking() -> bool {
    IS_WAKING.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::reason::Always;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake as Wakes;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wakes for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn each_is_woken_once_at_its_position() {
        let wakers = Wakers::default();
        let counts: Vec<Arc<Count>> = (0..4).map(|_| Arc::default()).collect();
        let mut ids = [None; 4];
        for (n, id) in ids.iter_mut().enumerate() {
            let waker = counts[n].clone().into();
            wakers.register(10 * n as u64, id, &waker);
            wakers.register(10 * n as u64, id, &waker);
        }
        wakers.wake_to(10, Always);
        wakers.deregister(ids[3].expect("registered"));
        let woken = || -> Vec<u32> { counts.iter().map(|c| c.0.load(SeqCst)).collect() };
        assert_eq!(woken(), [1, 1, 0, 0]);
        wakers.wake_all(Always);
        wakers.wake_all(Always);
        assert_eq!(woken(), [1, 1, 1, 0]);
    }
}
