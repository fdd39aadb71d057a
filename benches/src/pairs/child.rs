//! What needs a process of its own: one that is killed, one whose memory is looked at.

use logforce::{Guarantee, Log, Method, Options};
use logforce_measure::MeasureError;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The first word of a child's command line; the task comes behind it, as JSON.
const CHILD: &str = "child-of-pairs";

/// How to start a program that does a [`Task`].
#[derive(Debug, Clone)]
pub struct Child {
    program: PathBuf,
}

/// What a child does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The log to make.
    pub path: PathBuf,
    /// Its method.
    pub method: String,
    /// The least guarantee, as a place in [`Guarantee::ALL`].
    pub require: usize,
    /// Size of a segment, bytes.
    pub segment_size: u64,
    /// Bytes of a record.
    pub record: usize,
    /// Records in all.
    pub records: u64,
    /// Threads that append.
    pub threads: u32,
    /// Records between forces of a thread.
    pub force_every: u64,
    /// Read them all again.
    pub read: bool,
}

/// What a child answers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Answer {
    /// The most memory that was resident, KiB; `None` where the system does not say.
    pub peak_kib: Option<u64>,
}

impl Child {
    /// By this program, which calls [`task`] first of all.
    ///
    /// # Errors
    /// If the system does not tell which one it is.
    pub fn of_this_program() -> io::Result<Child> {
        let program = std::env::current_exe()?;
        Ok(Child { program })
    }

    /// Has `task` done, and kills the child when it has: to the log it is a crash.
    pub(super) fn crash_after(&self, task: &Task) -> Result<Answer, MeasureError> {
        let io = || MeasureError::io("a child process");
        let task = serde_json::to_string(task)
            .map_err(io::Error::from)
            .map_err(io())?;
        let mut child = Command::new(&self.program)
            .arg(CHILD)
            .arg(task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io())?;
        let mut line = String::new();
        let read = match child.stdout.take() {
            Some(stdout) => BufReader::new(stdout).read_line(&mut line),
            None => Ok(0),
        };
        // It may have ended by itself, with an error.
        let _ = child.kill();
        let mut message = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read_to_string(&mut message);
        }
        child.wait().map_err(io())?;
        read.map_err(io())?;
        serde_json::from_str(&line).map_err(|_| {
            MeasureError::NotOffered(format!("a child process failed: {}", message.trim()))
        })
    }
}

/// The task of this process, where it is a child.
pub fn task() -> Option<String> {
    let mut words = std::env::args().skip(1);
    words.next().filter(|w| w == CHILD)?;
    words.next()
}

/// Does the task. The child's side.
pub fn main(task: &str) -> ExitCode {
    if let Err(e) = run(task) {
        eprintln!("{e}");
    }
    ExitCode::FAILURE
}

/// Does a task, answers, and waits to be killed.
fn run(task: &str) -> Result<(), MeasureError> {
    let io = || MeasureError::io("in a child process");
    let task: Task = serde_json::from_str(task)
        .map_err(io::Error::from)
        .map_err(io())?;
    let log = fill(&task)?;
    if task.read {
        for record in log.read_from(log.front_lsn())? {
            record?;
        }
    }
    let answer = Answer {
        peak_kib: peak_kib(),
    };
    let answer = serde_json::to_string(&answer)
        .map_err(io::Error::from)
        .map_err(io())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{answer}")
        .and_then(|()| out.flush())
        .map_err(io())?;
    // Until it is killed; if the parent is gone there is nobody to do it.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    std::process::exit(1)
}

fn fill(task: &Task) -> Result<Log, MeasureError> {
    let method: Method = task
        .method
        .parse()
        .map_err(|e: logforce_device::UnknownMethod| MeasureError::NotOffered(e.to_string()))?;
    let require = Guarantee::ALL.get(task.require).copied();
    let options = Options::new()
        .method(method)
        .require(require.unwrap_or(Guarantee::PowerLoss))
        .segment_size(task.segment_size);
    let log = logforce::create_new(&task.path, options)?;
    let share = |id: u64| {
        let threads = u64::from(task.threads.max(1));
        task.records / threads + u64::from(id < task.records % threads)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(task.threads.max(1)))
            .map(|id| {
                let log = log.clone();
                scope.spawn(move || append(task, &log, share(id)))
            })
            .collect();
        threads.into_iter().try_for_each(|t| {
            t.join()
                .unwrap_or_else(|_| Err(MeasureError::NotOffered("a thread panicked".to_owned())))
        })
    })?;
    Ok(log)
}

fn append(task: &Task, log: &Log, records: u64) -> Result<(), MeasureError> {
    let mut record = vec![0; task.record];
    logforce_measure::prepare::scramble(&mut record, 0xc41d);
    for number in 1..=records {
        let end = log.append(&record)?.end;
        if number.is_multiple_of(task.force_every.max(1)) || number == records {
            log.force(end)?;
        }
    }
    Ok(())
}

/// The most memory of this process that was resident.
pub(crate) fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
