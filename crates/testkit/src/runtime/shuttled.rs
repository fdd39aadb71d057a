//! The [`Runtime`] of a run under shuttle: its threads, and a futex.

use super::{Points, address};
use logforce_device::sync::{AtomicBool, AtomicU32};
use logforce_device::{JoinHandle, Panicked, Runtime};
use shuttle::future::block_on;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::thread;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Name of the thread that [`ShuttleRuntime::with_clock`] starts. The test's scheduler gives it the
/// turn only when no other thread can run.
pub const CLOCK: &str = "clock";

/// Duration from which a wait has no deadline: it is "never", the result of a saturating sum.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);

/// Simulated time between two reads of the clock.
const TICK: Duration = Duration::from_micros(1);

/// A thread that waits on a word.
struct Sleeper {
    number: u64,
    waker: Waker,
    until: Option<Duration>,
}

/// The waiting threads and the time. It uses a std lock instead of shuttle's, so no access is a scheduling
/// point. Each access is one step, as in a kernel's futex.
#[derive(Default)]
struct Table {
    sleepers: BTreeMap<usize, Vec<Sleeper>>,
    now: Duration,
    /// Number of the next wait.
    next: u64,
}

/// Threads, waiting and time within one schedule of shuttle.
///
/// **Time does not pass** for waiting threads, unless [`with_clock`](Self::with_clock) is used: a timeout
/// would hide a lost wake. So a wait with a timeout ends only by a wake, and shuttle reports a deadlock if
/// that never comes.
#[derive(Clone)]
pub struct ShuttleRuntime {
    table: Arc<Mutex<Table>>,
    /// Dummy variable that is loaded to make a scheduling point.
    nothing: Arc<AtomicBool>,
    seed: u64,
    numbers: Arc<AtomicU64>,
}

impl Default for ShuttleRuntime {
    fn default() -> Self {
        ShuttleRuntime {
            table: Arc::default(),
            nothing: Arc::new(AtomicBool::new(false)),
            seed: thread_rng().next_u64(),
            numbers: Arc::default(),
        }
    }
}

/// Guard of the clock thread. Dropping it ends that thread.
#[must_use]
pub struct Clock {
    stop: Arc<AtomicBool>,
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

impl ShuttleRuntime {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that ends the earliest wait with a timeout each time it runs. It is always runnable,
    /// so the scheduler must choose it only if no other thread can run.
    ///
    /// # Panics
    /// That thread panics if no thread waits with a timeout: this is a deadlock.
    pub fn with_clock(&self) -> Clock {
        let stop = Arc::new(AtomicBool::new(false));
        let (runtime, stopped) = (self.clone(), stop.clone());
        let body = move || {
            while !stopped.load(SeqCst) {
                runtime.pass_time();
            }
        };
        let started = thread::Builder::new().name(CLOCK.to_owned()).spawn(body);
        drop(started.expect("shuttle's threads start"));
        Clock { stop }
    }

    fn pass_time(&self) {
        let mut table = self.table();
        let all = table.sleepers.iter();
        let until = all.flat_map(|(word, s)| s.iter().filter_map(|s| Some((s.until?, *word))));
        let Some((until, word)) = until.min() else {
            drop(table);
            panic!("deadlock: no thread can run, and none waits with a timeout");
        };
        table.now = table.now.max(until);
        let waiting = table.sleepers.get_mut(&word).expect("found just now");
        let at = waiting.iter().position(|s| s.until == Some(until));
        let sleeper = waiting.remove(at.expect("found just now"));
        drop(table);
        sleeper.waker.wake();
    }

    fn wake(&self, word: &AtomicU32, most: usize) {
        self.point();
        let woken: Vec<Sleeper> = {
            let mut table = self.table();
            let Some(waiting) = table.sleepers.get_mut(&address(word)) else {
                return;
            };
            let count = waiting.len().min(most);
            // Wakes any of the waiting threads: a futex guarantees no order.
            let first = match waiting.len() - count {
                0 => 0,
                spare => thread_rng().next_u64() as usize % (spare + 1),
            };
            waiting.drain(first..first + count).collect()
        };
        for sleeper in woken {
            sleeper.waker.wake();
        }
    }
}

impl Points for ShuttleRuntime {
    fn point(&self) {
        self.nothing.load(SeqCst);
    }
}

impl Runtime for ShuttleRuntime {
    fn now(&self) -> Duration {
        let mut table = self.table();
        table.now += TICK;
        table.now
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        // Catches panics that are part of a test. Otherwise shuttle would end the run.
        let body = move || catch_unwind(AssertUnwindSafe(body)).is_ok();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(Started(Mutex::new(thread))))
    }

    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        // The load is a scheduling point. There is none between it and the entry in the table.
        if word.load(SeqCst) != seen {
            return;
        }
        let key = address(word);
        let timeout = timeout.filter(|t| *t < FOR_EVER);
        let mut mine = None;
        // Does not park the thread: in shuttle that may end spuriously, which hides a lost wake.
        block_on(poll_fn(|context| {
            let mut table = self.table();
            match mine {
                None => {
                    let number = table.next;
                    table.next += 1;
                    mine = Some(number);
                    let until = timeout.map(|t| table.now.saturating_add(t));
                    let waiting = table.sleepers.entry(key).or_default();
                    waiting.push(Sleeper {
                        number,
                        waker: context.waker().clone(),
                        until,
                    });
                    Poll::Pending
                }
                Some(number) => {
                    let waiting = table.sleepers.get(&key);
                    match waiting.is_some_and(|w| w.iter().any(|s| s.number == number)) {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    }
                }
            }
        }));
    }

    fn wake_one(&self, word: &AtomicU32) {
        self.wake(word, 1);
    }

    fn wake_all(&self, word: &AtomicU32) {
        self.wake(word, usize::MAX);
    }

    fn random(&self) -> u64 {
        // Does not use the scheduler's generator, because requests must not change the schedule.
        let number = self.numbers.fetch_add(1, SeqCst);
        crate::Rng::new(self.seed ^ (number << 32)).bits()
    }

    fn process(&self) -> u64 {
        1
    }

    fn wall_clock(&self) -> Duration {
        self.now()
    }

    fn process_id(&self) -> u64 {
        1
    }
}

struct Started(Mutex<thread::JoinHandle<bool>>);

impl JoinHandle for Started {
    fn join(self: Box<Self>) -> Result<(), Panicked> {
        let thread = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        match thread.join() {
            Ok(true) => Ok(()),
            _ => Err(Panicked),
        }
    }
}

/// Returns the name of the calling thread, for the disk's log of operations.
pub(crate) fn thread_label() -> String {
    thread::current().name().unwrap_or("main").to_owned()
}
