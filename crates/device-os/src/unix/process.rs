use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Whether there is a process of that number. One that has ended and was not waited for is there.
pub fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}
