//! Commands with their output in a file and a time limit. A command is ended together with its child
//! processes.

use super::compiling;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
const POLL: Duration = Duration::from_millis(50);

/// Process ids of the running commands. A child is reaped only under this lock, so that its number
/// cannot belong to another process while it is in this list.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Result of a command.
#[derive(Debug)]
pub struct Ended {
    pub ok: bool,
    /// Exit status; `None` after a signal or the time limit.
    pub code: Option<i32>,
    /// Command line and exit status, in words.
    pub how: String,
    /// File with its output, both streams in order.
    pub log: PathBuf,
}

impl Ended {
    /// Returns the output as text.
    pub fn text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Runs the command in a separate process group and writes its output to the file `log`.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ended> {
    let what = || command_line(command);
    let out = File::create(log).with_context(|| log.display().to_string())?;
    let err = out.try_clone()?;
    let said = what();
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = {
        let mut running = running();
        let child = command.spawn().with_context(|| said.clone())?;
        running.push(child.id());
        child
    };
    let ended = wait(&mut child, limit);
    let (code, how) = match ended? {
        Some(status) => (status.code(), format!("{said}: {status}")),
        None => (
            None,
            format!("{said}: ended after {}", super::clock::shown(limit)),
        ),
    };
    let ended = Ended {
        ok: code == Some(0),
        code,
        how,
        log: log.to_owned(),
    };
    compiling::heard(&ended.text());
    Ok(ended)
}

/// Returns the command as one would type it.
pub fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Waits for the child; `None` if it had to be ended.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now().checked_add(limit))? {
        return Ok(Some(status));
    }
    signal(child.id(), false);
    if wait_until(child, Instant::now().checked_add(GRACE))?.is_none() {
        signal(child.id(), true);
        wait_until(child, None)?;
    }
    Ok(None)
}

fn wait_until(child: &mut Child, end: Option<Instant>) -> Result<Option<ExitStatus>> {
    loop {
        {
            let mut running = running();
            if let Some(status) = child.try_wait()? {
                running.retain(|id| *id != child.id());
                return Ok(Some(status));
            }
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
        sleep(POLL);
    }
}

/// Asks the process group of a child that is not reaped yet to end, or kills it.
#[cfg(unix)]
fn signal(id: u32, now: bool) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let signal = if now { Signal::KILL } else { Signal::TERM };
    let group = i32::try_from(id).ok().and_then(Pid::from_raw);
    // It may have ended in the meantime.
    let _ = group.map(|group| kill_process_group(group, signal));
}

#[cfg(not(unix))]
fn signal(_id: u32, _now: bool) {}

/// Handles Ctrl-C, which a separate process group does not get from the terminal: ends all commands,
/// tidies up, and exits.
#[cfg(unix)]
pub fn end_all_on_ctrl_c(tidy: impl Fn() + Send + 'static) -> Result<()> {
    ctrlc::set_handler(move || {
        // The lock stays held: from here on, nothing is reaped or started.
        let running = running();
        for id in running.iter() {
            signal(*id, false);
        }
        sleep(Duration::from_secs(1));
        for id in running.iter() {
            signal(*id, true);
        }
        tidy();
        eprintln!("ended by a signal");
        std::process::exit(130);
    })
    .context("handling Ctrl-C")
}

#[cfg(not(unix))]
pub fn end_all_on_ctrl_c(_tidy: impl Fn() + Send + 'static) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Ended, String) {
        let temp = tempfile::TempDir::new().unwrap();
        let mut command = Command::new("sh");
        let ended = run(
            command.args(["-c", script]),
            &temp.path().join("log"),
            limit,
        )
        .unwrap();
        let text = ended.text();
        (ended, text)
    }

    #[test]
    fn both_streams_are_kept_in_order_and_the_status_is_reported() {
        let (ended, text) = shell("echo one; echo two >&2; echo three; exit 3", Duration::MAX);
        assert_eq!(text, "one\ntwo\nthree\n");
        assert!(!ended.ok);
        assert!(ended.how.ends_with("exit status: 3"), "{}", ended.how);
        assert!(ended.how.starts_with("sh -c"), "{}", ended.how);
        assert!(shell("true", Duration::MAX).0.ok);
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_what_it_started() {
        // The second script ignores the request to end.
        for script in [
            "sleep 1000 & echo $!; wait",
            "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1; done",
        ] {
            let (ended, text) = shell(script, Duration::from_millis(300));
            assert!(!ended.ok);
            assert!(ended.how.contains("ended after"), "{}", ended.how);
            let stat = Path::new("/proc").join(text.trim()).join("stat");
            // The process is gone, or a zombie that its new parent has not reaped yet.
            let alive = || {
                let text = std::fs::read_to_string(&stat).unwrap_or_default();
                text.rsplit(") ")
                    .next()
                    .is_some_and(|t| !t.is_empty() && !t.starts_with('Z'))
            };
            let end = Instant::now() + Duration::from_secs(10);
            while alive() {
                assert!(Instant::now() < end, "{script}");
                sleep(POLL);
            }
        }
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error_with_its_name() {
        let temp = tempfile::TempDir::new().unwrap();
        let error = run(
            &mut Command::new("no-such-command"),
            &temp.path().join("log"),
            Duration::MAX,
        );
        assert!(error.unwrap_err().to_string().contains("no-such-command"));
    }
}
