#![allow(unsafe_code)]

use logforce_device::{Joiner, Panicked, Runtime};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use windows_sys::Win32::Security::Cryptography::{
    BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom,
};
use windows_sys::Win32::System::Threading::{
    INFINITE, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

/// Threads, `WaitOnAddress` and the monotonic clock of this process.
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
        let millis = timeout.map_or(INFINITE, milliseconds);
        // SAFETY: both addresses are of four bytes that live through the call. The word is changed
        // by atomic operations only, and the system looks at it as atomically. Whichever it was
        // that ended the wait, the caller looks again.
        unsafe {
            WaitOnAddress(word.as_ptr().cast(), ptr::from_ref(&seen).cast(), 4, millis);
        }
    }

    fn wake_one(&self, word: &AtomicU32) {
        // SAFETY: the address is only a key: nothing is read from it.
        unsafe { WakeByAddressSingle(word.as_ptr().cast()) }
    }

    fn wake_all(&self, word: &AtomicU32) {
        // SAFETY: as above.
        unsafe { WakeByAddressAll(word.as_ptr().cast()) }
    }

    fn random(&self) -> u64 {
        let mut bytes = [0u8; 8];
        // SAFETY: the buffer is a live local of the length that is given; this flag wants no
        // algorithm.
        let status = unsafe {
            BCryptGenRandom(
                ptr::null_mut(),
                bytes.as_mut_ptr(),
                bytes.len() as u32,
                BCRYPT_USE_SYSTEM_PREFERRED_RNG,
            )
        };
        if status == 0 {
            return u64::from_ne_bytes(bytes);
        }
        // std keeps a seed of its own from the system, and gives every state another key.
        std::hash::RandomState::new().build_hasher().finish()
    }

    fn process(&self) -> u64 {
        // No process of Windows becomes two.
        std::process::id().into()
    }
}

/// Rounded up, so that what is due is due when the wait has ended; never what means "for ever".
fn milliseconds(time: Duration) -> u32 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(millis).unwrap_or(INFINITE).min(INFINITE - 1)
}

struct Thread(JoinHandle<()>);

impl Joiner for Thread {
    fn join(self: Box<Self>) -> Result<(), Panicked> {
        self.0.join().map_err(|_| Panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(20)), 20);
        assert_eq!(milliseconds(Duration::MAX), INFINITE - 1);
    }
}
