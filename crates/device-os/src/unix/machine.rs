//! This computer, and processes.

#![allow(unsafe_code)]

use crate::{Machine, ProcessTimes};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Asks the system for the description of this computer.
pub fn machine() -> Machine {
    let name = rustix::system::uname();
    let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
    let system = match cfg!(target_os = "macos") {
        true => "macOS".to_owned(),
        false => text(name.sysname()),
    };
    let (host, arch) = (text(name.nodename()), text(name.machine()));
    Machine::of(host, system, kernel(), arch)
}

/// Returns the release of the running kernel. On macOS it is Darwin's: 23.1.0 belongs to macOS 14.1.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Returns true if there is a process of that number. A process that has ended but was not waited for counts.
pub fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns the processor time of this process, by `getrusage`; `None` if the system does not report it.
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
