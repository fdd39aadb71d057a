#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use windows_sys::Win32::Security::Cryptography::{
    BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom,
};
use windows_sys::Win32::System::Threading::{
    INFINITE, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let millis = timeout.map_or(INFINITE, milliseconds);
    // SAFETY: both addresses are of four bytes that live through the call. Only atomic operations change the
    // word, and the system reads it atomically. Whatever ends the wait, the caller reads the word again.
    unsafe {
        WaitOnAddress(word.as_ptr().cast(), ptr::from_ref(&seen).cast(), 4, millis);
    }
}

pub fn wake_one(word: &AtomicU32) {
    // SAFETY: the address is only a key: nothing is read from it.
    unsafe { WakeByAddressSingle(word.as_ptr().cast()) }
}

pub fn wake_all(word: &AtomicU32) {
    // SAFETY: as above.
    unsafe { WakeByAddressAll(word.as_ptr().cast()) }
}

/// Returns random bytes; `None` if the system refuses.
pub fn random() -> Option<[u8; 8]> {
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
    (status == 0).then_some(bytes)
}

/// Returns the process's number: Windows has no fork.
pub fn process() -> u64 {
    std::process::id().into()
}

/// Returns the time in milliseconds, rounded up, so that a deadline has passed when the wait ends. Never
/// returns the value that means "for ever".
fn milliseconds(time: Duration) -> u32 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(millis).unwrap_or(INFINITE).min(INFINITE - 1)
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
