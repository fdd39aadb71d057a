//! The command line.

mod files;
mod pages;
mod planted;
mod print;
mod process;
mod slow;
mod sqlite;
mod suite;

use anyhow::Result;
use clap::{Parser, Subcommand};
use logforce_crashtest::role;
use logforce_crashtest::testbed::{Filesystem, enclosure, needs};
use logforce_powercut::process::{contention, inject, readers};
use logforce_powercut::started::{Role, Workload};
use logforce_powercut::{files as file, pages as page_file, sqlite as database, subject};
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
    /// A naive engine on a durable file: live cuts, replayed states.
    Files(files::Args),
    /// SQLite on the VFS `logforce`: live cuts, replayed states, kills beside stock SQLite.
    Sqlite(sqlite::Args),
    /// Runs `logforce powercut` alone, on disks that are honest and on disks that lie.
    Own(suite::Args),
    /// Turns known bugs of the log on, one by one, each of which the cuts have to find.
    Planted(planted::Args),
    /// Runs a command on a filesystem whose disk takes its time, one request after another or many at
    /// once.
    Slow(slow::Args),
    /// Plays a role in one of the others.
    #[command(hide = true)]
    Role { role: Role, job: String },
}

/// Exit status if this machine lacks something.
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
        Command::Files(args) => enclosed(&args.filesystems(), |home| files::run(&args, home)),
        Command::Sqlite(args) => enclosed(&args.filesystems(), |home| sqlite::run(&args, home)),
        Command::Own(args) => enclosed(&args.filesystems(), |home| suite::own(&args, home)),
        Command::Planted(args) => planted::run(&args),
        Command::Slow(args) => enclosed(&args.filesystems(), |home| slow::run(&args, home)),
        Command::Role { role, job } => play(role, &job).map(|()| ExitCode::SUCCESS),
    }
}

fn play(role: Role, job: &str) -> Result<()> {
    match role {
        Role::Work => {
            let workload: Workload = serde_json::from_str(job)?;
            subject::run(&workload.job, workload.space)
        }
        Role::PageWork => page_file::work(&serde_json::from_str(job)?),
        Role::FileWork => file::work(&serde_json::from_str(job)?),
        Role::SqliteWork => database::work(&serde_json::from_str(job)?),
        Role::Raw => subject::raw::run(&serde_json::from_str(job)?),
        Role::Read => readers::role_read(job),
        Role::Contention => contention::role_contention(job),
        Role::Inject => inject::role_inject(job),
    }
}

/// Runs a part in the enclosure, which leaves nothing behind, if this machine has what it needs.
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
