//! A run of the workload under `strace`, ended after enough acknowledgements, and its history.

use super::calls::TRACED;
use super::compare::differs;
use super::follow::Follower;
use super::history::History;
use super::tasks::World;
use crate::finished::Finished;
use crate::plan::Plan;
use crate::program::{AckSource, Confinement, Places, Running};
use crate::testbed::enclosure::is_interrupted;
use crate::testbed::programs::in_path;
use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Acknowledgements after which a run is ended.
const ACKS: usize = 1000;
/// Time after the first acknowledgement until a run is ended.
const WORKED: Duration = Duration::from_secs(3);
/// Bytes of changes, and of the log, after which a run is ended.
const MOST_DATA: u64 = 64 << 20;
const MOST_LOG: u64 = 1 << 30;
/// Longest wait for killed processes.
const KILLED: Duration = Duration::from_secs(5);
/// Bytes of a call that `strace` prints.
const PRINTED: &str = "16777216";

/// A recorded run.
pub(super) struct Recorded {
    pub(super) history: History,
    /// Reason why the model cannot follow the run, if there is one.
    pub(super) refused: Option<String>,
    /// End of the workload, if it ended by itself.
    pub(super) ended: Finished,
    /// Unfinished last line of acknowledgements.
    pub(super) rest: String,
    pub(super) first_ack: Option<Duration>,
    pub(super) worked: Duration,
}

/// Returns what this machine lacks, in words; `None` if the model can run.
pub fn missing() -> Option<String> {
    tracer().err()
}

/// Returns the first words of the command line of `strace`; an error says what is missing.
fn tracer() -> std::result::Result<Vec<&'static str>, String> {
    if !in_path("strace") {
        return Err("strace (package strace)".to_owned());
    }
    let mut why = String::new();
    // With the filter of the kernel, calls that do not matter cost nothing. Before 5.3 `strace` does not have it.
    for words in [vec!["strace", "-f", "--seccomp-bpf"], vec!["strace", "-f"]] {
        let mut command = std::process::Command::new(words[0]);
        let out = command
            .args(&words[1..])
            .args(["-q", "-e", "trace=execve", "-o", "/dev/null", "true"])
            .output();
        match out {
            Ok(out) if out.status.success() => return Ok(words),
            Ok(out) => {
                why = String::from_utf8_lossy(&out.stderr)
                    .trim()
                    .replace('\n', "; ")
            }
            Err(e) => why = e.to_string(),
        }
    }
    Err(format!(
        "the right to trace programs (ptrace): {why}; a container needs `--cap-add SYS_PTRACE`, and \
         /proc/sys/kernel/yama/ptrace_scope must be 0 or 1"
    ))
}

/// Runs the workload in `dir` and follows it.
pub(super) fn record(plan: &Plan, dir: &Path, home: &Path) -> Result<Recorded> {
    let (log, acks) = (home.join("log"), home.join("acks"));
    rustix::fs::mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    File::create(&acks)?;
    let history = History::read(dir)?;
    let words = tracer().map_err(anyhow::Error::msg)?;
    let options =
        format!("-q -ttt -xx -s {PRINTED} -e signal=none -e raw=read,readv -e trace={TRACED} -o");
    let mut under: Vec<OsString> = words.iter().map(Into::into).collect();
    under.extend(options.split(' ').map(Into::into));
    under.extend([log.clone().into(), "--".into()]);
    let places = Places {
        dir,
        acks: Some(&acks),
        acked: None,
        begun: None,
    };
    // Not blocking: a tracer that does not start would never open the other end.
    let pipe = rustix::fs::open(
        &log,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut pipe = File::from(pipe);
    let (program, acknowledged, within) = (&plan.workload, Some(plan.acks), Confinement::Group);
    let mut running = Running::start(program, places, acknowledged, &under, within, || {})?;
    let world = World::new(history, dir, &acks, std::env::current_dir()?);
    let fd = match plan.acks {
        AckSource::Stdout => Some(1),
        AckSource::Fd(fd) => Some(fd.into()),
        AckSource::File => None,
    };
    let mut follower = Follower::new(world, fd);
    let (began, mut bytes, mut text) = (Instant::now(), vec![0; 1 << 20], Vec::new());
    let (mut read, mut refused, mut first_ack, mut stopped) = (0, None, None, None::<Instant>);
    let limit = follower.world.history.bytes + MOST_DATA;
    loop {
        let has_ended = running.has_ended()?;
        match pipe.read(&mut bytes) {
            Ok(0) if has_ended => break,
            Ok(len @ 1..) => {
                read += len as u64;
                let whole = bytes[..len].iter().rposition(|b| *b == b'\n');
                let (new, rest) = bytes[..len].split_at(whole.map_or(0, |at| at + 1));
                if new.is_empty() {
                    text.extend_from_slice(rest);
                    continue;
                }
                text.extend_from_slice(new);
                for line in String::from_utf8_lossy(&text).lines() {
                    // Also after the first error: the new threads have to be ended.
                    let followed = follower.line(line);
                    refused = refused.or(followed.err());
                }
                text = rest.to_vec();
            }
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Err(e)?
            }
            Ok(0) | Err(_) => std::thread::sleep(Duration::from_micros(500)),
        }
        let history = &follower.world.history;
        let acked = history.lines.iter().filter(|line| !line.begun).count();
        if acked > 0 && first_ack.is_none() {
            first_ack = Some(began.elapsed());
        }
        let until = first_ack.map_or(plan.patience, |first| first + WORKED);
        let is_enough = acked >= ACKS || began.elapsed() > until;
        let is_too_much = history.bytes > limit || read > MOST_LOG;
        if is_too_much && acked == 0 {
            let too_much = || {
                format!(
                    "the workload acknowledged nothing before it had written {} MiB, more than the model holds",
                    MOST_DATA >> 20
                )
            };
            refused.get_or_insert_with(too_much);
        }
        if is_enough || is_too_much || refused.is_some() || is_interrupted() {
            let since = *stopped.get_or_insert_with(Instant::now);
            kill(follower.world.tasks.keys());
            if since.elapsed() > KILLED {
                break;
            }
        }
    }
    let status = match stopped {
        None => running.status()?,
        Some(_) => None,
    };
    let finished = running.kill()?;
    let _ = fs::remove_file(&log);
    let refused = refused.or_else(|| differs(&follower.world, dir));
    Ok(Recorded {
        refused,
        ended: Finished { status, ..finished },
        rest: String::from_utf8_lossy(&follower.world.rest).into_owned(),
        first_ack,
        worked: began.elapsed(),
        history: follower.world.history,
    })
}

/// Kills traced threads, with their processes.
fn kill<'a>(tasks: impl Iterator<Item = &'a u32>) {
    for task in tasks {
        // A number that another process has got meanwhile is not traced.
        let status = fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
        let is_traced = status
            .lines()
            .any(|l| l.starts_with("TracerPid:") && !l.ends_with("\t0"));
        if let Some(pid) = Pid::from_raw(*task as i32).filter(|_| is_traced) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}
