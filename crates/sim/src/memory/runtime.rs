//! A runtime whose threads never run.

use logforce_device::sync::AtomicU32;
use logforce_device::{JoinHandle, Panicked, Runtime};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A runtime in which only the caller's thread runs. That is a valid schedule until the caller waits for
/// another thread without a timeout, which panics.
#[derive(Default)]
pub(super) struct Inert {
    nanos: AtomicU64,
}

struct Never;

impl JoinHandle for Never {
    fn join(self: Box<Self>) -> Result<(), Panicked> {
        Ok(())
    }
}

impl Runtime for Inert {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.fetch_add(1_000, SeqCst))
    }

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        Ok(Box::new(Never))
    }

    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        if word.load(SeqCst) == seen {
            let time = timeout.expect("the caller waits for a thread that never runs");
            self.nanos.fetch_add(time.as_nanos() as u64, SeqCst);
        }
    }

    fn wake_one(&self, _: &AtomicU32) {}

    fn wake_all(&self, _: &AtomicU32) {}

    fn random(&self) -> u64 {
        // The same numbers in every opening, so that a difference between two openings comes from the bytes.
        0x9e37_79b9_7f4a_7c15 ^ self.nanos.load(SeqCst)
    }

    fn wall_clock(&self) -> Duration {
        self.now()
    }

    fn process_id(&self) -> u64 {
        1
    }

    fn process(&self) -> u64 {
        1
    }
}
