//! Threads and time, from std. The backend's `runtime` has waiting, random bits, and the identity of the
//! process.

use crate::os::runtime as os;
use logforce_device::{JoinHandle, Panicked, Runtime};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Threads, waiting and the monotonic clock of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRuntime;

/// Common origin for all runtimes of the process, so that their times can be compared.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Runtime for OsRuntime {
    fn now(&self) -> Duration {
        ORIGIN.elapsed()
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        // A NUL in a thread's name would panic in std.
        let name = name.replace('\0', "?");
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(body)
            .map_err(|e| {
                io::Error::new(e.kind(), format!("cannot start the thread '{name}': {e}"))
            })?;
        Ok(Box::new(Thread(thread)))
    }

    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        os::wait(word, seen, timeout);
    }

    fn wake_one(&self, word: &AtomicU32) {
        os::wake_one(word);
    }

    fn wake_all(&self, word: &AtomicU32) {
        os::wake_all(word);
    }

    fn random(&self) -> u64 {
        random()
    }

    fn process(&self) -> u64 {
        os::process()
    }
}

/// Returns unpredictable bits from the system.
pub fn random() -> u64 {
    os::random().map_or_else(
        // std has its own seed from the system, and gives every state another key.
        || std::hash::RandomState::new().build_hasher().finish(),
        u64::from_ne_bytes,
    )
}

struct Thread(std::thread::JoinHandle<()>);

impl JoinHandle for Thread {
    fn join(self: Box<Self>) -> Result<(), Panicked> {
        self.0.join().map_err(|_| Panicked)
    }
}
