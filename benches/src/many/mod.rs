//! Many logs in one process: each with separate threads and files, or all in one environment.
//!
//! A separate process measures each setup: it opens the logs, commits to each once a second, rests, and
//! is killed. Another process then reopens the logs.

mod child;
mod report;

pub use child::ChildReport;

use crate::place::{self, BenchDir};
use anyhow::{Context, Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Compares many separate logs with as many logs in one environment.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    common: place::Common,
    /// Number of logs
    #[arg(long, default_value_t = 1000)]
    logs: usize,
    /// Duration of the run; each log gets one commit a second
    #[arg(long, default_value = "20s", value_parser = humantime)]
    seconds: Duration,
    /// Part that this child process runs
    #[arg(long, hide = true)]
    child: Option<Part>,
}

fn humantime(text: &str) -> Result<Duration> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds: f64 = digits.parse().context("seconds, as in 20s")?;
    Duration::try_from_secs_f64(seconds).context("seconds, as in 20s")
}

/// Work of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Logs with separate threads and files.
    Alone,
    /// Logs in one environment.
    Shared,
    /// Opens the logs that `alone` left.
    ReopenAlone,
    /// Opens the logs that `shared` left.
    ReopenShared,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Alone => "alone",
            Part::Shared => "shared",
            Part::ReopenAlone => "reopen-alone",
            Part::ReopenShared => "reopen-shared",
        }
    }
}

/// Reads the flags, runs both setups and prints the table.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Some(part) = flags.child {
        return match child::run(part, &flags.common.dir, flags.logs, flags.seconds) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e:#}");
                ExitCode::FAILURE
            }
        };
    }
    place::run("many", |interrupt| compare(&flags, &interrupt))
}

fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let place = BenchDir::new(&flags.common.dir)?;
    println!(
        "{}, each with a commit of 128 B every second for {:?}",
        count(flags.logs as u64, "log"),
        flags.seconds
    );
    let program = std::env::current_exe().context("finding this program")?;
    let mut seen = Vec::new();
    for (part, again) in [
        (Part::Alone, Part::ReopenAlone),
        (Part::Shared, Part::ReopenShared),
    ] {
        let dir = place.path().join(part.name());
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        for part in [part, again] {
            if interrupt.is_raised() {
                return Ok(false);
            }
            seen.push(run(&program, part, &dir, flags.logs, flags.seconds)?);
        }
    }
    report::print(&seen);
    flags.common.write(&seen)?;
    Ok(true)
}

/// Runs a part in a child process and returns its report. The child is killed, so it closes no log.
///
/// # Errors
/// If the child does not start, or ends before it has reported.
pub fn run(
    program: &Path,
    part: Part,
    dir: &Path,
    logs: usize,
    seconds: Duration,
) -> Result<ChildReport> {
    struct Killed(Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let child = Command::new(program)
        .args(["--child", part.name(), "--logs", &logs.to_string()])
        .args(["--seconds", &seconds.as_secs_f64().to_string(), "--dir"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .context("starting a process")?;
    let mut child = Killed(child);
    let output = child.0.stdout.take().context("its output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.is_empty() {
        bail!(
            "the process for '{}' ended before it had reported",
            part.name()
        );
    }
    serde_json::from_str(&line).context("reading what a process has reported")
}
