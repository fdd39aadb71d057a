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

/// Longer waits are for ever: no deadline, but "never" as the result of a saturating sum.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);

/// Simulated time between two looks at the clock.
const TICK: Duration = Duration::from_micros(1);

/// A thread that waits on a word.
struct Sleeper {
    number: u64,
    waker: Waker,
    until: Option<Duration>,
}

/// The waiting threads and the time. No lock of shuttle's protects it: nothing in here is a scheduling
/// point, so each access is one step, as in a kernel's futex.
#[derive(Default)]
struct Table {
    sleepers: BTreeMap<usize, Vec<Sleeper>>,
    now: Duration,
    /// Number of the next wait.
    next: u64,
}

/// Threads, waiting and time within one schedule of shuttle.
///
/// **Time does not pass** for waiting threads, unless [`with_clock`](Self::with_clock) asks for it:
/// a wait that ends by its timeout would hide a lost wake. So a wait with a timeout waits for its wake
/// alone, and shuttle reports a deadlock if that never comes.
#[derive(Clone)]
pub struct ShuttleRuntime {
    table: Arc<Mutex<Table>>,
    /// Loaded where only a scheduling point is wanted.
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

/// Ends the clock when the run has ended.
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

    /// Starts a thread that ends the earliest wait with a timeout each time it gets the turn. It can
    /// always run: the scheduler must not choose it while another thread can.
    ///
    /// # Panics
    /// In that thread, when no thread waits with a timeout either: a deadlock.
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
            // Any of them: a futex keeps no order that could be relied on.
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
        // A panic that is part of the test ends its thread; shuttle would end the run.
        let body = move || catch_unwind(AssertUnwindSafe(body)).is_ok();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(Started(Mutex::new(thread))))
    }

    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        // The load is the scheduling point before it; from there to the entry in the table there is
        // none.
        if word.load(SeqCst) != seen {
            return;
        }
        let key = address(word);
        let timeout = timeout.filter(|t| *t < FOR_EVER);
        let mut mine = None;
        // Not by parking a thread: shuttle lets that end for no reason, which hides a lost wake.
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
        // Not the scheduler's: asking for bits must not change the schedule.
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

/// The name of the calling thread, for the disk's log of operations.
pub(crate) fn thread_label() -> String {
    thread::current().name().unwrap_or("main").to_owned()
}
