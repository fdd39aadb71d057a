//! A process that runs a task. It does not outlive the process that started it.

use super::task::Task;
use anyhow::{Context, Result, bail};
use logforce_measure::Interrupt;
use serde::de::DeserializeOwned;
use serde_json::Value;
#[cfg(feature = "go")]
use std::io::Write;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval between two checks of the interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// A running process. It is killed and reaped when this is dropped. If this process is killed, the other
/// one ends when its standard input ends.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Output on standard error.
    said: Receiver<String>,
}

impl Process {
    /// Starts a program with a task, which is its last argument.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut program: Command, task: &Task) -> Result<Process> {
        let mut child = program
            .arg(serde_json::to_string(task)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.get_program().display()))?;
        let lines = read_lines(child.stdout.take());
        let said = read_all(child.stderr.take());
        Ok(Process { child, lines, said })
    }

    /// Waits for the line of this event.
    ///
    /// # Errors
    /// If another event came, the process ended, or the interrupt was raised.
    pub fn wait_for(&mut self, event: &str, interrupt: &Interrupt) -> Result<Value> {
        let line = self.line(interrupt)?;
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("its process printed a line that is not JSON: {line}"))?;
        if value["event"] != event {
            bail!("its process printed {line} where `{event}` was expected");
        }
        Ok(value)
    }

    /// Lets the waiting process continue.
    ///
    /// # Errors
    /// If the process has ended.
    #[cfg(feature = "go")]
    pub fn answer(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("its process has ended")?;
        stdin
            .write_all(b"\n")
            .context("its process ended before its work was done")
    }

    /// Waits for the result of the task, and ends the process.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub fn done<T: DeserializeOwned>(mut self, interrupt: &Interrupt) -> Result<T> {
        let value = self.wait_for("done", interrupt)?;
        serde_json::from_value(value).context("its process printed an unexpected result")
    }

    fn line(&mut self, interrupt: &Interrupt) -> Result<String> {
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if interrupt.is_raised() => bail!("interrupted"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // The process closed its output: it is ending, or cannot answer any more.
                    let _ = self.child.kill();
                    let status = self.child.wait()?;
                    let said = self.said.recv().unwrap_or_default();
                    bail!("its process ended with {status}: {}", said.trim());
                }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If all went well, it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let read = stdout.map(|out| BufReader::new(out).lines());
        for line in read.into_iter().flatten().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn read_all(stderr: Option<ChildStderr>) -> Receiver<String> {
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        let mut all = String::new();
        if let Some(mut stderr) = stderr {
            // An error is ignored: everything read before it is shown.
            let _ = stderr.read_to_string(&mut all);
        }
        let _ = sender.send(all);
    });
    said
}
