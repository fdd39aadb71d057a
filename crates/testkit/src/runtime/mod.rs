//! A seeded cooperative scheduler over real threads, behind the [`Runtime`] seam.

mod schedule;
#[cfg(shuttle)]
pub(crate) mod shuttled;
#[cfg(shuttle)]
pub(crate) use shuttled::thread_label;

use logforce_device::sync::AtomicU32;
use logforce_device::{JoinHandle, Runtime};
use schedule::{Doing, MAIN, Schedule, Thread};
use std::cell::Cell;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    /// Run of this real thread, and the thread's number in it.
    static ME: Cell<Option<(u64, usize)>> = const { Cell::new(None) };
}

/// Real time after which a thread that keeps the token counts as blocked.
const STUCK: Duration = Duration::from_secs(300);

/// Aborts the process, because the thread with the token is blocked and nothing can be unwound. Writes the
/// message past the test harness, which would show it only after the end of the test.
fn abort_stuck(s: &Schedule) -> ! {
    let name = &s.threads[s.current].name;
    let text = format!(
        "thread {name} has come to no scheduling point for {STUCK:?}: does it wait for a std mutex \
         that another thread holds across a call of the runtime or the disk?\n{}\n",
        s.describe()
    );
    let _ = io::stderr().write_all(text.as_bytes());
    std::process::abort();
}

/// A runtime that the simulated disk informs of each of its operations.
pub trait Points: Runtime {
    /// Makes a scheduling point: another thread may continue here.
    fn point(&self);
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Returns the name of the calling thread in its run, for the log of operations.
#[cfg(not(shuttle))]
pub(crate) fn thread_label() -> String {
    match ME.get() {
        Some((_, me)) if me != MAIN => std::thread::current().name().unwrap_or_default().to_owned(),
        _ => "main".to_owned(),
    }
}

/// Runtime that runs the code under test on real threads, one at a time, in an order that follows from a
/// seed.
///
/// Every call of [`Runtime`] and every operation of a [`SimDisk`](crate::SimDisk) is a *scheduling point*:
/// another thread may continue there. Simulated time advances a little at each point, and jumps to the next
/// timeout when no thread can run. The code under test must not hold a std mutex across a scheduling point,
/// which the contract forbids anyway. It must wait for other threads only through the runtime.
#[derive(Clone)]
pub struct SimRuntime {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    process: AtomicU64,
    schedule: Mutex<Schedule>,
}

impl SimRuntime {
    /// Runs `body` as the thread `main`, and waits in simulated time until every thread that it spawned has
    /// ended.
    ///
    /// # Panics
    /// With the first panic of any thread. On a deadlock, with the name and the state of every thread;
    /// blocked threads are leaked then, so that their destructors cannot hang.
    pub fn run<T>(seed: u64, body: impl FnOnce(&SimRuntime) -> T) -> T {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        let rt = SimRuntime {
            inner: Arc::new(Inner {
                id: RUNS.fetch_add(1, Ordering::Relaxed),
                process: AtomicU64::new(1),
                schedule: Mutex::new(Schedule::new(seed)),
            }),
        };
        let before = ME.replace(Some((rt.inner.id, MAIN)));
        let result = catch_unwind(AssertUnwindSafe(|| body(&rt)));
        let left = rt.inner.finish();
        ME.set(before);
        let mut s = rt.inner.lock();
        let first = if s.tolerate_panics {
            None
        } else {
            s.panic.take()
        };
        drop(s);
        match (first, result) {
            (Some(panic), _) | (None, Err(panic)) => resume_unwind(panic),
            (None, Ok(value)) => match left {
                None => value,
                Some(why) => panic!("after the test's closure had returned, {why}"),
            },
        }
    }

    /// Makes a scheduling point: another thread may continue here.
    pub fn point(&self) {
        self.inner.point();
    }

    /// Sets the result of [`Runtime::process`], as in the child after a fork.
    pub fn set_process(&self, process: u64) {
        self.inner.process.store(process, Ordering::SeqCst);
    }

    /// Lets the run pass although a spawned thread panics, for tests of the other threads' reaction.
    pub fn tolerate_panics(&self) {
        self.inner.lock().tolerate_panics = true;
    }

    /// Sets the number of scheduling points after which the run is given up. Default 50 million.
    pub fn set_step_limit(&self, steps: u64) {
        self.inner.lock().step_limit = steps;
    }

    /// Returns the number of scheduling points so far. Together with the clock it identifies the schedule.
    pub fn steps(&self) -> u64 {
        self.inner.lock().steps
    }

    /// Sleeps for this long in simulated time.
    pub fn sleep(&self, time: Duration) {
        let word = AtomicU32::new(0);
        let end = self.now() + time;
        loop {
            let now = self.now();
            if now >= end {
                return;
            }
            self.wait(&word, 0, Some(end - now));
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of this thread, or `None` outside of the run (for handles that are dropped after
    /// its end).
    fn me(&self) -> Option<usize> {
        ME.get()
            .filter(|(run, _)| *run == self.id)
            .map(|(_, me)| me)
    }

    fn me_or_panic(&self, call: &str) -> usize {
        self.me().unwrap_or_else(|| {
            panic!(
                "Runtime::{call} outside of SimRuntime::run, or by a thread that it did not spawn"
            )
        })
    }

    fn point(&self) {
        let Some(me) = self.me() else { return };
        let mut s = self.lock();
        if s.given_up.is_none() && s.tick() {
            self.pass_on(s, me);
        }
    }

    /// Passes the token to the next thread and returns when it is back.
    fn pass_on(&self, s: MutexGuard<'_, Schedule>, me: usize) {
        if let Err(why) = self.try_pass_on(s, me) {
            // A second panic would abort the process. Instead destructors continue without waiting.
            if !std::thread::panicking() {
                panic!("{why}");
            }
        }
    }

    /// Does the same as [`pass_on`](Self::pass_on). The error is the reason why the run was given up
    /// meanwhile.
    fn try_pass_on(&self, s: MutexGuard<'_, Schedule>, me: usize) -> Result<(), String> {
        if self.hand_over(s, me) {
            return Ok(());
        }
        self.until_mine(me)
    }

    /// Chooses the next thread and lets it run. Returns true if it is the caller.
    fn hand_over(&self, mut s: MutexGuard<'_, Schedule>, me: usize) -> bool {
        if let Err(why) = s.choose() {
            s.given_up = Some(format!("{why}\n{}", s.describe()));
            s.current = MAIN;
        } else if s.current == me {
            return true;
        }
        let next = s.threads[s.current].real.clone();
        // Releases the mutex first, because the woken thread would wait for it.
        drop(s);
        if let Some(next) = next {
            next.unpark();
        }
        false
    }

    fn until_mine(&self, me: usize) -> Result<(), String> {
        loop {
            let s = self.lock();
            match &s.given_up {
                None if s.current == me => return Ok(()),
                Some(why) if me == MAIN => return Err(why.clone()),
                // Other threads stay here for ever, because unwinding would run destructors that wait.
                _ => {
                    let steps = s.steps;
                    drop(s);
                    let began = Instant::now();
                    std::thread::park_timeout(STUCK);
                    let s = self.lock();
                    if began.elapsed() >= STUCK && s.steps == steps && s.given_up.is_none() {
                        abort_stuck(&s);
                    }
                }
            }
        }
    }

    /// Waits for all other threads after the closure has returned or panicked. If they cannot end, the
    /// error is the reason.
    fn finish(&self) -> Option<String> {
        let mut s = self.lock();
        if s.given_up.is_none() {
            s.threads[MAIN].doing = Doing::Finishing;
            // No thread needs long now. The limit catches a thread that polls the clock for ever.
            s.step_limit = s.step_limit.min(s.steps + 1_000_000);
            return self.try_pass_on(s, MAIN).err();
        }
        s.given_up.clone()
    }

    fn thread_main(&self, me: usize, body: Box<dyn FnOnce() + Send>) {
        ME.set(Some((self.id, me)));
        if self.until_mine(me).is_err() {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(body));
        let mut s = self.lock();
        s.end(me, result.is_err());
        if let Err(panic) = result {
            s.panic.get_or_insert(panic);
        }
        self.hand_over(s, me);
    }

    /// Returns true if the run was given up, so that threads must not wait any more. Called before each wait.
    fn no_waiting(&self, s: &mut Schedule) -> bool {
        if s.given_up.is_none() {
            return false;
        }
        s.idle_waits += 1;
        if s.idle_waits > 1_000_000 {
            // Only a destructor reaches this. A panic in it would abort without a message.
            eprintln!(
                "the run was given up, and a destructor waits for ever: {:?}",
                s.given_up
            );
            std::process::abort();
        }
        true
    }
}

impl Points for SimRuntime {
    fn point(&self) {
        self.inner.point();
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Duration {
        self.point();
        Duration::from_nanos(self.inner.lock().now)
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        self.inner.me_or_panic("spawn");
        let mut s = self.inner.lock();
        if s.given_up.is_some() {
            return Err(io::Error::other("the simulated run was given up"));
        }
        let number = s.threads.len();
        s.threads.push(Thread {
            name: name.to_owned(),
            doing: Doing::Running,
            real: None,
        });
        drop(s);
        let inner = self.inner.clone();
        let started = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || inner.thread_main(number, body));
        match started {
            Ok(real) => self.inner.lock().threads[number].real = Some(real.thread().clone()),
            Err(e) => {
                self.inner.lock().end(number, false);
                return Err(e);
            }
        }
        self.point();
        Ok(Box::new(SimJoiner {
            inner: self.inner.clone(),
            number,
        }))
    }

    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        let me = self.inner.me_or_panic("wait");
        // The scheduling point comes before this load of the word. So another thread can change the word
        // between the caller's load and this one, which a futex must handle.
        self.point();
        let mut s = self.inner.lock();
        if self.inner.no_waiting(&mut s) || word.load(Ordering::SeqCst) != seen {
            return;
        }
        if s.spurious && s.rng.one_in(32) {
            return;
        }
        let until = timeout.map(|t| s.now.saturating_add(t.as_nanos().min(1 << 62) as u64));
        s.threads[me].doing = Doing::Waiting {
            word: address(word),
            until,
        };
        self.inner.pass_on(s, me);
    }

    fn wake_one(&self, word: &AtomicU32) {
        self.point();
        self.inner.lock().wake(address(word), false);
        self.point();
    }

    fn wake_all(&self, word: &AtomicU32) {
        self.point();
        self.inner.lock().wake(address(word), true);
        self.point();
    }

    fn random(&self) -> u64 {
        self.inner.lock().random.bits()
    }

    fn process(&self) -> u64 {
        self.inner.process.load(Ordering::SeqCst)
    }

    fn wall_clock(&self) -> Duration {
        self.now()
    }

    fn process_id(&self) -> u64 {
        self.process()
    }
}

struct SimJoiner {
    inner: Arc<Inner>,
    number: usize,
}

impl JoinHandle for SimJoiner {
    fn join(self: Box<Self>) -> Result<(), logforce_device::Panicked> {
        self.inner.point();
        let me = self.inner.me_or_panic("join");
        loop {
            let mut s = self.inner.lock();
            if let Doing::Ended { panicked } = s.threads[self.number].doing {
                return if panicked {
                    Err(logforce_device::Panicked)
                } else {
                    Ok(())
                };
            }
            if self.inner.no_waiting(&mut s) {
                return Err(logforce_device::Panicked);
            }
            s.threads[me].doing = Doing::Joining(self.number);
            self.inner.pass_on(s, me);
        }
    }
}
