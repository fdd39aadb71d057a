use crate::sync::AtomicU32;
use std::io;
use std::time::Duration;

/// Threads, time, waiting and waking. Behind a trait so that tests can run the shipped code
/// under a scheduler and a clock of their own.
///
/// No caller holds a mutex across any call of this trait, of [`Directory`](crate::Directory) or
/// of [`File`](crate::File): a scheduler that runs one thread at a time would stop for ever.
pub trait Runtime: Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Starts a named thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>>;

    /// Sleeps while `*word == seen`, until woken or until `timeout` has passed. May return early
    /// for no reason: callers look again.
    fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>);

    /// Wakes one thread that waits on `word`.
    fn wake_one(&self, word: &AtomicU32);

    /// Wakes all threads that wait on `word`.
    fn wake_all(&self, word: &AtomicU32);

    /// Unpredictable bits, for log ids and epoch nonces.
    fn random(&self) -> u64;

    /// Time since the beginning of 1970 by the system's clock, for people to read: it may jump.
    fn wall_clock(&self) -> Duration {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
    }

    /// The process's number as the system gives it, for people to read: it may come back.
    fn process_id(&self) -> u64 {
        std::process::id().into()
    }

    /// A number that differs between a process and the children it forks: a log opened before
    /// the fork refuses the child's calls. Cheap enough to be asked on every commit.
    fn process(&self) -> u64;
}

/// A started thread.
pub trait JoinHandle: Send + Sync {
    /// Waits until the thread has ended.
    fn join(self: Box<Self>) -> Result<(), Panicked>;
}

/// The thread that was waited for had panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the thread panicked")
    }
}

impl std::error::Error for Panicked {}
