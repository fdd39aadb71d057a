//! Waiting and waking under loom: every interleaving of two or three threads, and every value that a weak
//! memory model permits a load to return. Shuttle, in contrast, treats all memory orderings as the strongest
//! one.
//!
//! ```text
//! RUSTFLAGS="--cfg loom --cfg planted" CARGO_TARGET_DIR=target/orderings \
//!     cargo test -p logforce-commit --lib loom_tests
//! ```

use crate::sync::event::Event;
use crate::sync::poison::Poison;
use crate::sync::reason::Always;
use crate::sync::runtime_mutex::RuntimeMutex;
use crate::sync::wakers::Wakers;
use logforce_device::sync::{AtomicU32, AtomicU64};
use logforce_device::{JoinHandle, Runtime};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::{Wake as Wakes, Waker};
use std::time::Duration;

/// A futex that checks the word and puts the thread to sleep under the same lock.
#[derive(Default)]
struct Futex {
    table: Mutex<()>,
    woken: Condvar,
}

impl Runtime for Futex {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn wait(&self, word: &AtomicU32, seen: u32, _: Option<Duration>) {
        let table = self.table.lock().unwrap();
        if word.load(SeqCst) == seen {
            drop(self.woken.wait(table).unwrap());
        }
    }

    fn wake_one(&self, word: &AtomicU32) {
        // Waking more than one thread is allowed, because waits may end spuriously.
        self.wake_all(word);
    }

    fn wake_all(&self, _: &AtomicU32) {
        let _table = self.table.lock().unwrap();
        self.woken.notify_all();
    }

    fn random(&self) -> u64 {
        0
    }

    fn process(&self) -> u64 {
        0
    }
}

/// A thread that observes, checks and sleeps does not miss a change with a notification.
#[test]
fn a_notification_is_not_missed() {
    loom::model(|| {
        let engine = Arc::new((Event::default(), AtomicU32::new(0), Futex::default()));
        let notifier = {
            let engine = engine.clone();
            thread::spawn(move || {
                engine.1.store(1, Release);
                engine.0.notify(&engine.2, Always);
            })
        };
        let (event, done, futex) = &*engine;
        loop {
            let seen = event.observe();
            if done.load(Acquire) == 1 {
                break;
            }
            event.wait(futex, seen, None, Always);
        }
        notifier.join().unwrap();
    });
}

#[derive(Default)]
struct Count(std::sync::atomic::AtomicU32);

impl Wakes for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A task that registers and checks again, or a writer that moves the watermark and wakes: one sees the
/// other.
#[test]
fn a_waker_or_the_second_check() {
    loom::model(|| {
        let engine = Arc::new((Wakers::default(), AtomicU64::new(0)));
        let mover = {
            let engine = engine.clone();
            thread::spawn(move || {
                engine.1.store(7, Release);
                engine.0.wake_to(7, Always);
            })
        };
        let count = Arc::new(Count::default());
        let waker: Waker = count.clone().into();
        let mut id = None;
        engine.0.register(7, &mut id, &waker);
        let there = engine.1.load(Acquire) >= 7;
        mover.join().unwrap();
        let woken = count.0.load(SeqCst) > 0;
        assert!(there || woken, "sleeps forever");
        engine.0.deregister(id.unwrap());
    });
}

/// The lock has one holder at a time, each sees the writes of the previous one, and no thread waits forever.
#[test]
fn a_lock_publishes_writes() {
    loom::model(|| {
        let futex: Arc<dyn Runtime> = Arc::new(Futex::default());
        let engine = Arc::new((RuntimeMutex::new(futex), AtomicU32::new(0)));
        let add = |engine: &(RuntimeMutex, AtomicU32)| {
            let _held = engine.0.lock();
            let before = engine.1.load(Relaxed);
            engine.1.store(before + 1, Relaxed);
        };
        let other = {
            let engine = engine.clone();
            thread::spawn(move || add(&engine))
        };
        add(&engine);
        other.join().unwrap();
        let _held = engine.0.lock();
        assert_eq!(engine.1.load(Relaxed), 2);
    });
}

/// A thread that sees the failure gets its cause.
#[test]
fn a_failure_comes_with_its_cause() {
    loom::model(|| {
        let poison = Arc::new(Poison::default());
        let failing = {
            let poison = poison.clone();
            thread::spawn(move || drop(poison.set(7)))
        };
        if poison.is_set() {
            assert_eq!(poison.cause().as_deref(), Some(&7));
        }
        failing.join().unwrap();
        assert!(poison.cause().is_some());
    });
}

/// Runs this program once for each known bug of this kind in these files.
#[cfg(planted)]
#[test]
fn planted_bugs_are_caught() {
    let sources = [
        include_str!("wakers.rs"),
        include_str!("runtime_mutex.rs"),
        include_str!("poison.rs"),
    ];
    let names: Vec<&str> = sources
        .iter()
        .flat_map(|s| s.split("planted!(\"").skip(1))
        .filter_map(|rest| rest.split('"').next())
        .filter(|name| name.starts_with("order-"))
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["loom_tests", "--skip", "planted"])
            .env("LOGFORCE_PLANTED", name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let by = text.lines().find(|l| l.ends_with("... FAILED"));
        assert!(by.is_some(), "{name} is not caught: {}", output.status);
        println!("{name:<16} {}", by.unwrap_or_default());
    }
}
