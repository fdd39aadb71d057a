//! Early termination of the servers' programs.

use logforce_measure::MeasureError;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time that a program has to end after the signal, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval after which the signal is sent again. A program that has just been started still ignores the
/// signals that its parent ignored, so the first one can be lost.
const AGAIN: Duration = Duration::from_millis(500);
/// Interval between two checks whether a program has ended.
pub const LOOK: Duration = Duration::from_millis(20);

/// Method to end a program and the programs that it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Kills them: all their files are in their directory.
    Kill,
    /// Sends this signal to the program, and kills the rest of its group after 10 s. Needed for
    /// PostgreSQL, whose shared memory outside the directory would stay if it were killed.
    Ask(Signal),
}

impl Ending {
    /// Returns the order for the guard's script: the name of the signal, and the process or group that
    /// gets it.
    pub fn order(self, pid: u32) -> String {
        match self {
            Ending::Kill => format!("KILL -{pid}"),
            Ending::Ask(Signal::INT) => format!("INT {pid}"),
            Ending::Ask(_) => format!("TERM {pid}"),
        }
    }
}

/// Ends `child`, which leads a process group, and that whole group.
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
            // Its children end when it does. A signal to them would leave their shared memory behind.
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

/// Returns the exit status, if the program has ended.
pub fn ended(child: &mut Child) -> Result<Option<ExitStatus>, MeasureError> {
    child
        .try_wait()
        .map_err(MeasureError::io("waiting for a server"))
}
