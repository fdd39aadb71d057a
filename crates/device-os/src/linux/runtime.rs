use super::error::uninterrupted;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

pub use super::fork::process;

pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|t| rustix::thread::Timespec {
        tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    // The word has changed, the time is up, or a signal came. In each case the caller checks again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, timeout.as_ref());
}

pub fn wake_one(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

pub fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

/// Returns random bytes. `None` without getrandom: it is missing before Linux 3.17, and a sandbox may forbid
/// it.
pub fn random() -> Option<[u8; 8]> {
    let mut bytes = [0u8; 8];
    let got = uninterrupted(|| getrandom(&mut bytes, GetRandomFlags::empty()));
    (got == Ok(8)).then_some(bytes)
}
