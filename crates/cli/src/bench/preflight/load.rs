//! Load beside a measurement: a command of the user, a writer, or both.

use anyhow::Context;
use logforce_device::Directory;
use logforce_measure::beside::{BackgroundWriter, Written};
use logforce_measure::result::document::clean;
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError};
use std::io::Read;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a load has to begin before the first commit.
const WARM_UP: Duration = Duration::from_secs(1);
/// Interval between two checks if the command has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Shortest time between two starts of the command.
const RESTART: Duration = Duration::from_millis(200);
/// Time that the command's processes have to end after they were asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Length of the end of the command's error output that is kept, bytes.
const TAIL: usize = 2048;
/// Largest file of the writer, bytes.
const LARGEST_FILE: u64 = 4 << 30;
/// Smallest file of the writer, bytes.
const SMALLEST_FILE: u64 = 64 << 20;

/// Load as the user asks for it.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Command for the shell.
    pub command: Option<String>,
    /// Bytes per second of the writer.
    pub rate: Option<u64>,
}

/// Load that runs.
pub struct Load {
    command: Option<Runner>,
    writer: Option<BackgroundWriter>,
}

/// Work that a load has done.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Command, and the number of times that it was started.
    pub command: Option<(String, u64)>,
    /// Work of the writer.
    pub written: Option<Written>,
}

impl Load {
    /// Starts the load, and waits until it has begun. The writer's file is in `directory`.
    ///
    /// # Errors
    /// The load cannot be started, or fails at once.
    pub fn start(
        wanted: &Wanted,
        directory: &dyn Directory,
        interrupt: &Interrupt,
    ) -> Result<Load, MeasureError> {
        let writer = match wanted.rate {
            Some(rate) => {
                let size = file_size(Space::of(directory)?)?;
                Some(BackgroundWriter::start(directory, rate, size)?)
            }
            None => None,
        };
        let command = wanted.command.clone().map(Runner::start).transpose()?;
        let load = Load { command, writer };
        let start = Instant::now();
        while load.is_any() && start.elapsed() < WARM_UP {
            interrupt.check()?;
            load.check()?;
            std::thread::sleep(LOOK);
        }
        Ok(load)
    }

    fn is_any(&self) -> bool {
        self.command.is_some() || self.writer.is_some()
    }

    /// Fails if the load has failed.
    pub fn check(&self) -> Result<(), MeasureError> {
        self.command.as_ref().map_or(Ok(()), Runner::check)?;
        self.writer.as_ref().map_or(Ok(()), BackgroundWriter::check)
    }

    /// Ends the load, and returns what it has done.
    pub fn stop(self) -> Result<Done, MeasureError> {
        let command = self.command.map(Runner::stop).transpose()?;
        let written = self.writer.map(BackgroundWriter::stop).transpose()?;
        Ok(Done { command, written })
    }
}

/// Returns the size of the writer's file: half of the space that may be used.
fn file_size(space: Space) -> Result<u64, MeasureError> {
    space.check(2 * SMALLEST_FILE, "another --dir")?;
    Ok((space.usable() / 2).min(LARGEST_FILE))
}

/// A thread that runs the command, and starts it again when it ends.
struct Runner {
    command: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    starts: u64,
    failure: Option<String>,
}

impl Shared {
    fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_stopped(&self) -> bool {
        self.with(|s| s.is_stopped)
    }
}

impl Runner {
    fn start(command: String) -> Result<Runner, MeasureError> {
        let shared = Arc::new(Shared::default());
        let (own, text) = (Arc::clone(&shared), command.clone());
        let thread = Builder::new()
            .name("beside-command".to_owned())
            .spawn(move || {
                if let Err(e) = run_until_stopped(&text, &own) {
                    own.with(|s| s.failure = Some(format!("{e:#}")));
                }
            })
            .map_err(MeasureError::io("starting a thread"))?;
        Ok(Runner {
            command,
            shared,
            thread: Some(thread),
        })
    }

    fn check(&self) -> Result<(), MeasureError> {
        match self.shared.with(|s| s.failure.clone()) {
            Some(failure) => Err(MeasureError::NotOffered(format!(
                "the command of --beside {failure}. Without it there is no answer: try it alone first"
            ))),
            None => Ok(()),
        }
    }

    fn stop(mut self) -> Result<(String, u64), MeasureError> {
        self.end();
        self.check()?;
        Ok((self.command.clone(), self.shared.with(|s| s.starts)))
    }

    fn end(&mut self) {
        self.shared.with(|s| s.is_stopped = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs the command again and again. Returns once it was stopped.
///
/// # Errors
/// The command cannot be started, or fails.
fn run_until_stopped(command: &str, shared: &Shared) -> anyhow::Result<()> {
    while !shared.is_stopped() {
        let began = Instant::now();
        let mut child = shell(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot be started by the shell")?;
        shared.with(|s| s.starts += 1);
        let errors = child.stderr.take().map(tail_of).transpose();
        let errors = errors.context("cannot be watched")?;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot be waited for")? {
                break status;
            }
            if shared.is_stopped() {
                end(&mut child);
                wait_for_the_end(errors.as_ref());
                return Ok(());
            }
            std::thread::sleep(LOOK);
        };
        // Ends what the command has left in the background.
        drop(child.stdin.take());
        if !status.success() {
            anyhow::bail!(failed(status, began.elapsed(), errors.as_ref()));
        }
        while began.elapsed() < RESTART && !shared.is_stopped() {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Script around the command. It ends all processes of the command when its standard input ends, because the
/// measurement is over or was killed.
#[cfg(unix)]
const SCRIPT: &str = r#"
exec 3<&0
/bin/sh -c "$1" </dev/null 3<&- &
load=$!
{
    cat <&3 >/dev/null
    trap '' TERM
    kill -s TERM -- "-$$"
    n=0
    while kill -s 0 "$load" && [ $n -lt 30 ]; do
        sleep 0.1
        n=$((n + 1))
    done
    kill -s KILL -- "-$$"
} 2>/dev/null >/dev/null &
exec 3<&-
wait "$load"
"#;

#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut shell = Command::new("/bin/sh");
    // Ctrl-C does not reach its group: the measurement ends it.
    shell
        .args(["-c", SCRIPT, "logforce-beside", command])
        .process_group(0);
    shell
}

#[cfg(unix)]
fn end(child: &mut Child) {
    drop(child.stdin.take());
    let _ = child.wait();
}

#[cfg(windows)]
fn shell(command: &str) -> Command {
    use std::os::windows::process::CommandExt;
    let mut shell = Command::new("cmd");
    shell.raw_arg("/C").raw_arg(command);
    shell
}

#[cfg(windows)]
fn end(child: &mut Child) {
    // The processes that the command has started end too.
    let pid = child.id().to_string();
    let _ = Command::new("taskkill")
        .args(["/T", "/F", "/PID", &pid])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns a receiver of the end of the output, which gets it when all processes have closed it.
fn tail_of(mut output: ChildStderr) -> std::io::Result<Receiver<String>> {
    let (send, receive) = channel();
    Builder::new()
        .name("beside-errors".to_owned())
        .spawn(move || {
            let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = output.read(&mut piece) {
                kept.extend_from_slice(&piece[..n]);
                kept.drain(..kept.len().saturating_sub(TAIL));
            }
            let _ = send.send(String::from_utf8_lossy(&kept).into_owned());
        })?;
    Ok(receive)
}

/// Waits until the processes of the command have closed their error output, which they do when they end.
fn wait_for_the_end(errors: Option<&Receiver<String>>) -> Option<String> {
    errors?.recv_timeout(PATIENCE).ok()
}

fn failed(status: ExitStatus, after: Duration, errors: Option<&Receiver<String>>) -> String {
    let errors = wait_for_the_end(errors).unwrap_or_default();
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or_else(String::new, |line| format!(": {}", clean(line.trim())));
    format!("failed after {:.1} s ({status}){last}", after.as_secs_f64())
}
