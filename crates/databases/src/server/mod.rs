//! Throw-away servers. Each has a separate directory, listens on unix sockets only, and runs as an
//! unprivileged user. It is removed afterwards, however this process ends.

mod ending;
mod guard;
mod home;
mod programs;
mod user;

pub use ending::Ending;
pub use home::Home;
pub use programs::{Programs, beside_each_other};
pub use user::User;

use ending::{LOOK, end, ended};
use guard::Guard;
use logforce_measure::{Interrupt, MeasureError};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server to accept connections, or to create its files.
const TO_START: Duration = Duration::from_secs(120);
/// Time limit for an orderly shutdown.
const TO_STOP: Duration = Duration::from_secs(30);

/// A running server. When dropped, it is ended at once: its files are not needed any more.
pub struct Running {
    name: &'static str,
    child: Child,
    at_once: Ending,
}

/// Returns a command that runs `program` as the home's user, with a clean environment.
fn command(program: &Path, home: &Home) -> Result<Command, MeasureError> {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null())
        // A Ctrl-C in the terminal must reach only this process, which then ends the server.
        .process_group(0);
    if let Some(user) = home.user() {
        command.uid(user.uid).gid(user.gid);
    }
    let writing = |path: &Path| MeasureError::io(format!("writing {}", path.display()));
    let path = home.output();
    let output = File::options().create(true).append(true).open(&path);
    let output = output.map_err(writing(&path))?;
    command
        .stderr(output.try_clone().map_err(writing(&path))?)
        .stdout(output);
    Ok(command)
}

/// Runs a program until it ends, or ends it by `at_once` if the user interrupts.
pub fn run(
    name: &'static str,
    program: &Path,
    arguments: &[String],
    home: &Home,
    at_once: Ending,
    interrupt: &Interrupt,
) -> Result<(), MeasureError> {
    let mut command = command(program, home)?;
    let starting = format!("starting {}", program.display());
    let child = command
        .args(arguments)
        .spawn()
        .map_err(MeasureError::io(starting))?;
    // The program leads a process group, so that its children are ended with it.
    let mut group = Group(child, at_once);
    home.guard().watch(group.0.id(), at_once);
    let start = Instant::now();
    loop {
        if let Some(status) = ended(&mut group.0)? {
            home.guard().forget();
            return if status.success() {
                Ok(())
            } else {
                Err(failed(name, &format!("{} failed", program.display()), home))
            };
        }
        interrupt.check()?;
        if start.elapsed() > TO_START {
            return Err(failed(
                name,
                &format!("{} has not ended after 120 s", program.display()),
                home,
            ));
        }
        std::thread::sleep(LOOK);
    }
}

struct Group(Child, Ending);

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            end(&mut self.0, self.1);
        }
    }
}

impl Running {
    /// Starts a server, and waits until `answers` says that it accepts connections.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        home: &Home,
        at_once: Ending,
        interrupt: &Interrupt,
        answers: impl Fn() -> bool,
    ) -> Result<Running, MeasureError> {
        let mut command = command(program, home)?;
        let starting = format!("starting {}", program.display());
        let child = command
            .args(arguments)
            .spawn()
            .map_err(MeasureError::io(starting))?;
        home.guard().watch(child.id(), at_once);
        let mut running = Running {
            name,
            child,
            at_once,
        };
        let start = Instant::now();
        while !answers() {
            interrupt.check()?;
            if ended(&mut running.child)?.is_some() {
                home.guard().forget();
                return Err(failed(name, "the server ended at its start", home));
            }
            if start.elapsed() > TO_START {
                return Err(failed(name, "the server does not answer after 120 s", home));
            }
            std::thread::sleep(LOOK);
        }
        Ok(running)
    }

    /// Shuts the server down by `signal`, so that it can be started again.
    pub fn stop(mut self, signal: Signal, home: &Home) -> Result<(), MeasureError> {
        let _ = kill_process(Pid::from_child(&self.child), signal);
        let start = Instant::now();
        while ended(&mut self.child)?.is_none() {
            if start.elapsed() > TO_STOP {
                return Err(failed(
                    self.name,
                    "the server has not ended after 30 s",
                    home,
                ));
            }
            std::thread::sleep(LOOK);
        }
        home.guard().forget();
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            end(&mut self.child, self.at_once);
        }
    }
}

/// Returns an error with the end of the program's output.
fn failed(name: &str, what: &str, home: &Home) -> MeasureError {
    let said = std::fs::read(home.output()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    MeasureError::NotOffered(format!("{name}: {what}; its last output: {last}"))
}
