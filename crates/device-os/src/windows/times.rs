#![allow(unsafe_code)]

use crate::times::ProcessTimes;
use std::time::Duration;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// Processor time of this process; `None` if the system does not say. It grows in steps of the
/// system's clock, 16 ms usually.
pub fn process_times() -> Option<ProcessTimes> {
    let [mut created, mut ended, mut system, mut user] = [FILETIME::default(); 4];
    // SAFETY: the pseudo handle of this process is always open; the pointers are to live locals.
    let ok = unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &mut created,
            &mut ended,
            &mut system,
            &mut user,
        )
    };
    (ok != 0).then(|| ProcessTimes {
        user: duration(user),
        system: duration(system),
    })
}

/// Units of 100 ns.
fn duration(time: FILETIME) -> Duration {
    let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(units.saturating_mul(100))
}
