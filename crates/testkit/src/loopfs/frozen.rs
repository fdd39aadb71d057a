//! Frozen filesystems, as during a snapshot.

use super::{LoopFs, Skip, skip};
use crate::process::Start;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Maximum duration of a program on a frozen filesystem. A program that waits for the thaw waits for ever,
/// and no signal ends it.
const LIMIT: Duration = Duration::from_secs(60);

/// Script of a shell that freezes, says so, and thaws when its input ends, also when the test is killed.
/// Otherwise nothing could write to the filesystem or unmount it. The shell ignores signals to the group of
/// the test.
const SCRIPT: &str =
    "trap '' HUP INT TERM; fsfreeze -f \"$0\" && echo frozen; read _; fsfreeze -u \"$0\"";

/// A frozen filesystem; dropping it thaws it.
#[derive(Debug)]
pub struct Frozen<'f> {
    filesystem: &'f LoopFs,
    guard: Child,
}

impl LoopFs {
    /// Freezes the filesystem. From now on every write waits in the kernel.
    ///
    /// # Errors
    /// [`Skip`] if `fsfreeze` is missing or fails.
    pub fn freeze(&self) -> Result<Frozen<'_>, Skip> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).arg(self.path());
        let guard = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
        let guard = guard.or_else(|e| skip(format!("sh cannot be run: {e}")))?;
        let mut frozen = Frozen {
            filesystem: self,
            guard,
        };
        let mut line = String::new();
        if let Some(out) = frozen.guard.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        match line.trim() {
            "frozen" => Ok(frozen),
            _ => skip(format!("fsfreeze -f {} failed", self.path().display())),
        }
    }
}

impl Frozen<'_> {
    /// Runs a program to its end and returns its output; `None` if it waited for the thaw.
    ///
    /// # Errors
    /// If it does not start.
    pub fn to_end(&mut self, command: &mut Command) -> io::Result<Option<Output>> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()?;
        let end = Instant::now() + LIMIT;
        let mut in_time = true;
        while in_time && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(5));
            in_time = Instant::now() < end;
        }
        if !in_time {
            // Thaws before waiting for the program. The next program finds the filesystem thawed, but this
            // one has failed.
            let path = self.filesystem.path();
            let _ = Command::new("fsfreeze").arg("-u").arg(path).status();
            let _ = child.kill();
        }
        let output = child.wait_with_output()?;
        Ok(in_time.then_some(output))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
