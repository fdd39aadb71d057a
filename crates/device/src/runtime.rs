use crate::sync::AtomicU32;
use std::io;
use std::time::Duration;

/// Threads, time, waiting and waking. A trait, so that tests can run the shipped code under their own
/// scheduler and clock.
///
/// No caller holds a mutex across any call of this trait, of [`Directory`](crate::Directory) or of
/// [`File`](crate::File). Otherwise a scheduler that runs one thread at a time would stop for ever.
pub trait Runtime: Send + Sync {
    /// Returns the time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Starts a named thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>>;

    /// Sleeps while `*word == seen`, until woken or until `timeout` has passed. May return early for no
    /// reason, so callers check again.
    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>);

    /// Wakes one thread that waits on `word`.
    fn wake_one(&self, word: &AtomicU32);

    /// Wakes all threads that wait on `word`.
    fn wake_all(&self, word: &AtomicU32);

    /// Returns unpredictable bits, for log ids and epoch nonces.
    fn random(&self) -> u64;

    /// Returns the time since the beginning of 1970 by the system's clock, for people to read. It may jump.
    fn wall_clock(&self) -> Duration {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
    }

    /// Returns the system's number of this process, for people to read. The system may reuse it.
    fn process_id(&self) -> u64 {
        std::process::id().into()
    }

    /// Returns a number that differs between a process and the children that it forks. A log opened before
    /// the fork refuses the child's calls. The call must be cheap, because every commit makes it.
    fn process(&self) -> u64;
}

/// Started thread.
pub trait JoinHandle: Send + Sync {
    /// Waits until the thread has ended.
    fn join(self: Box<Self>) -> Result<(), Panicked>;
}

/// Error: the thread that was waited for has panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the thread panicked")
    }
}

impl std::error::Error for Panicked {}
