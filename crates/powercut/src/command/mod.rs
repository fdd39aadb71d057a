//! The command line.

mod pages;
mod planted;
mod print;
mod process;
mod slow;
mod suite;

use anyhow::Result;
use clap::{Parser, Subcommand};
use logforce_crashtest::role;
use logforce_crashtest::testbed::{Filesystem, enclosure, needs};
use logforce_powercut::process::Role;
use logforce_powercut::subject;
use std::path::Path;
use std::process::ExitCode;

/// Real power cuts on real filesystems: pulls the plug of a disk under the log, thousands of
/// times, and compares what is left with what was acknowledged.
#[derive(Debug, Parser)]
#[command(name = "logforce-powercut", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs everything: self-checks first, then live cuts, then replayed states.
    Suite(suite::Args),
    /// Process faults: kills, full disks, errors, readers, several writers.
    Process(process::Args),
    /// The page file: live cuts, replayed states, kills.
    Pages(pages::Args),
    /// Runs `logforce powercut` alone, on disks that are honest and on disks that lie.
    Own(suite::Args),
    /// Turns known bugs of the log on, one by one, each of which the cuts have to find.
    Planted(planted::Args),
    /// Runs a command on a filesystem whose disk takes its time, one request after another or many at
    /// once.
    Slow(slow::Args),
    /// The subject's process.
    #[command(hide = true)]
    Work { job: String },
    /// The subject's process, with a page file.
    #[command(hide = true)]
    PageWork { job: String },
    /// The process of a small program with a known mistake.
    #[command(hide = true)]
    Raw { job: String },
    /// The subject's process, under one of the process faults.
    #[command(hide = true)]
    ProcessWork { job: String },
    /// A process that reads a log while others write it.
    #[command(hide = true)]
    ProcessRead { job: String },
    /// A process that opens a log again and again.
    #[command(hide = true)]
    ProcessContention { job: String },
    /// A process whose system calls fail.
    #[command(hide = true)]
    ProcessInject { job: String },
}

/// Something that it takes is missing here.
const SKIPPED: u8 = 77;

pub fn main() -> ExitCode {
    let ended = match role::play() {
        Some(played) => played.map(|()| ExitCode::SUCCESS),
        None => run(Cli::parse().command),
    };
    match ended {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Suite(args) => enclosed(&args.filesystems(), |home| suite::run(&args, home)),
        Command::Process(args) => enclosed(&args.filesystems(), |home| process::run(&args, home)),
        Command::Pages(args) => enclosed(&args.filesystems(), |home| pages::run(&args, home)),
        Command::PageWork { job } => Ok(ended(Role::PageWork.run(&job))),
        Command::ProcessWork { job } => role(Role::Work, &job),
        Command::ProcessRead { job } => role(Role::Read, &job),
        Command::ProcessContention { job } => role(Role::Contention, &job),
        Command::ProcessInject { job } => role(Role::Inject, &job),
        Command::Own(args) => enclosed(&args.filesystems(), |home| suite::own(&args, home)),
        Command::Planted(args) => planted::run(&args),
        Command::Slow(args) => enclosed(&args.filesystems(), |home| slow::run(&args, home)),
        Command::Work { job } => Ok(ended(subject::run(
            &serde_json::from_str(&job)?,
            subject::Space::Little,
        ))),
        Command::Raw { job } => Ok(ended(subject::raw::run(&serde_json::from_str(&job)?))),
    }
}

/// A subject whose disk went away ends with an error, as it should. The error is not printed: thousands
/// of them would hide other messages.
fn ended(ended: Result<()>) -> ExitCode {
    ExitCode::from(u8::from(ended.is_err()))
}

/// How these end is read by the suite that started them.
fn role(role: Role, job: &str) -> Result<ExitCode> {
    role.run(job).map(|()| ExitCode::SUCCESS)
}

/// Runs something where nothing of it is left behind, if what it takes is here.
fn enclosed(
    filesystems: &[Filesystem],
    run: impl FnOnce(&Path) -> Result<ExitCode>,
) -> Result<ExitCode> {
    if enclosure::is_inside() {
        let home = enclosure::enter()?;
        return run(&home);
    }
    let missing = needs::missing(filesystems);
    if !missing.is_empty() {
        println!("skipped: real power cuts need what is not here:");
        for what in missing {
            println!("    {what}");
        }
        return Ok(ExitCode::from(SKIPPED));
    }
    enclosure::run_inside(&std::env::args_os().skip(1).collect::<Vec<_>>()).map(ExitCode::from)
}
