//! How programs of servers are ended before they would end by themselves.

use logforce_measure::MeasureError;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long a program that was asked to end may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// When it is asked again: a program that has just been started ignores what its parent ignored until it
/// says otherwise, and the signal is lost.
const AGAIN: Duration = Duration::from_millis(500);
/// Between two looks whether it has ended.
pub const LOOK: Duration = Duration::from_millis(20);

/// How one program and those that it started are ended at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// They are killed: all that they leave is in their directory.
    Kill,
    /// The program is asked by this signal, and what is left of its group after some seconds is killed.
    /// PostgreSQL has shared memory outside of its directory, which stays if it is killed.
    Ask(Signal),
}

impl Ending {
    /// As the guard's script has it: the name of the signal, and the process or group that gets it.
    pub fn order(self, pid: u32) -> String {
        match self {
            Ending::Kill => format!("KILL -{pid}"),
            Ending::Ask(Signal::INT) => format!("INT {pid}"),
            Ending::Ask(_) => format!("TERM {pid}"),
        }
    }
}

/// Ends `child`, which leads a group, and all of that group.
pub fn end(child: &mut Child, ending: Ending) {
    let group = Pid::from_child(child);
    if let Ending::Ask(signal) = ending {
        let start = Instant::now();
        let mut asked: Option<Instant> = None;
        while start.elapsed() < PATIENCE {
            let leads = matches!(child.try_wait(), Ok(None));
            if !leads && test_kill_process_group(group) == Err(Errno::SRCH) {
                return;
            }
            // Those that it started end when it does; to signal them would leave their shared memory.
            if leads && asked.is_none_or(|at| at.elapsed() > AGAIN) {
                let _ = kill_process(group, signal);
                asked = Some(Instant::now());
            }
            std::thread::sleep(LOOK);
        }
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// How it ended, if it has.
pub fn ended(child: &mut Child) -> Result<Option<ExitStatus>, MeasureError> {
    child
        .try_wait()
        .map_err(MeasureError::io("waiting for a server"))
}
