#![allow(unsafe_code)]

use crate::times::ProcessTimes;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Processor time of this process, by `getrusage`; `None` if the system does not say.
pub fn process_times() -> Option<ProcessTimes> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live local of the structure that the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: plain numbers, which were zeroed and then filled.
    let usage = unsafe { usage.assume_init() };
    Some(ProcessTimes {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
