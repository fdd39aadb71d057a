use logforce_device::{Joiner, Panicked, Runtime};
use rustix::thread::futex;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads, futexes and the monotonic clock of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRuntime;

/// One origin for all runtimes of the process, so that their times can be compared.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Runtime for OsRuntime {
    fn now(&self) -> Duration {
        ORIGIN.elapsed()
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Joiner>> {
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
        let timeout = timeout.map(|t| rustix::thread::Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        // The word has changed, the time is up, a signal came: whichever it was, the caller looks
        // again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, timeout.as_ref());
    }

    fn wake_one(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }

    fn wake_all(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    fn random(&self) -> u64 {
        random()
    }

    fn process(&self) -> u64 {
        super::fork::process()
    }
}

/// Unpredictable bits from the kernel.
pub fn random() -> u64 {
    let mut bytes = [0u8; 8];
    let got = super::error::uninterrupted(|| {
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
    });
    match got {
        Ok(8) => u64::from_ne_bytes(bytes),
        // No getrandom (it is missing before Linux 3.17, and a sandbox may forbid it): std keeps a
        // seed of its own from /dev/urandom, and gives every state another key.
        _ => std::hash::RandomState::new().build_hasher().finish(),
    }
}

struct Thread(JoinHandle<()>);

impl Joiner for Thread {
    fn join(self: Box<Self>) -> Result<(), Panicked> {
        self.0.join().map_err(|_| Panicked)
    }
}
