//! Measurements in a child process: one is killed to simulate a crash, another has its memory measured.

use logforce::{Guarantee, Log, Method, Options};
use logforce_measure::MeasureError;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// First argument of a child process; the task follows as JSON.
const CHILD: &str = "child-of-pairs";

/// Program that runs a [`Task`].
#[derive(Debug, Clone)]
pub struct Child {
    program: PathBuf,
}

/// Work of a child process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Path of the log to create.
    pub path: PathBuf,
    /// Method of the log.
    pub method: String,
    /// Minimum guarantee, as an index into [`Guarantee::ALL`].
    pub require: usize,
    /// Size of a segment, bytes.
    pub segment_size: u64,
    /// Size of a record, bytes.
    pub record: usize,
    /// Number of records.
    pub records: u64,
    /// Number of appending threads.
    pub threads: u32,
    /// Records between two forces of a thread.
    pub force_every: u64,
    /// True to read all records again afterwards.
    pub read: bool,
}

/// Answer of a child process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Answer {
    /// Peak resident memory, KiB; `None` if the system does not report it.
    pub peak_kib: Option<u64>,
}

impl Child {
    /// Returns a child that runs this program, which must call [`task`] first of all.
    ///
    /// # Errors
    /// If the system does not report the path of this program.
    pub fn of_this_program() -> io::Result<Child> {
        let program = std::env::current_exe()?;
        Ok(Child { program })
    }

    /// Runs `task` in a child and kills the child once it is done. To the log this is a crash.
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
        // The child may have ended already, with an error.
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

/// Returns the task of this process, if it is a child.
pub fn task() -> Option<String> {
    let mut words = std::env::args().skip(1);
    words.next().filter(|w| w == CHILD)?;
    words.next()
}

/// Runs the task in the child process.
pub fn main(task: &str) -> ExitCode {
    if let Err(e) = run(task) {
        eprintln!("{e}");
    }
    ExitCode::FAILURE
}

/// Runs a task, answers, and waits to be killed.
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
    // Waits to be killed. If the parent is gone, standard input ends.
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

/// Returns the peak resident memory of this process, KiB.
pub(crate) fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
