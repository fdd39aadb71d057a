//! A process that does a task, and does not outlive who asked for it.

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

/// The interrupt is looked at so often.
const LOOK: Duration = Duration::from_millis(50);

/// One that runs. It is killed and reaped when this is dropped; if this process is killed, the end
/// of its standard input tells it to end.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    /// What it said of what went wrong.
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
    /// If another one came, if the process ended, or if the interrupt was raised.
    pub fn wait_for(&mut self, event: &str, interrupt: &Interrupt) -> Result<Value> {
        let line = self.line(interrupt)?;
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("its process said what is no JSON: {line}"))?;
        if value["event"] != event {
            bail!("its process said {line} where `{event}` was expected");
        }
        Ok(value)
    }

    /// Lets it go on where it waits.
    ///
    /// # Errors
    /// If it is gone.
    #[cfg(feature = "go")]
    pub fn answer(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("its process is gone")?;
        stdin
            .write_all(b"\n")
            .context("its process is gone before its work was done")
    }

    /// Waits for what the task came to, and ends the process, which has nothing left to do.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub fn done<T: DeserializeOwned>(mut self, interrupt: &Interrupt) -> Result<T> {
        let value = self.wait_for("done", interrupt)?;
        serde_json::from_value(value).context("its process said something else than it should")
    }

    fn line(&mut self, interrupt: &Interrupt) -> Result<String> {
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if interrupt.is_raised() => bail!("interrupted"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // It closed its output: it is ending, or of no more use.
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
        // It has ended by itself where all went well.
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
            // What could be read is worth showing.
            let _ = stderr.read_to_string(&mut all);
        }
        let _ = sender.send(all);
    });
    said
}
