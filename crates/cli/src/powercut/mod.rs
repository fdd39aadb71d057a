//! `logforce powercut`.

mod check;
mod witness;
mod write;

use crate::exit::{End, Usage};
use crate::output::Target;
use anyhow::bail;
use clap::Subcommand;
use logforce_device::Method;
use logforce_terminal::arguments;
use logforce_witness::{Control, RunId};
use std::path::PathBuf;
use std::time::Duration;

const STEPS: &str = "\
How to do it, with the machine in question (its data on DIR may be lost: use one whose other data
you can spare) and another one that stays on:

  other$    logforce powercut witness
  machine$  logforce powercut write --witness other DIR     pull the plug after a minute, start again
  machine$  logforce powercut check --witness other DIR     the control phase must have lost something
  machine$  logforce powercut write --witness other DIR     pull the plug again, start again
  machine$  logforce powercut check --witness other DIR     the verdict; repeat the last two at will

The first rounds write by a method that is known to be unsafe: if its loss cannot be seen, neither
could the log's. After that a log commits by the method in question, and a small file beside it is
not forced: if nothing of that is missing, there was no cut. A killed process, an orderly shutdown
and the reset of a virtual machine are no cuts.

The verdict is stored in DIR and in --cache, by filesystem and method. Logs obey it: a method that
lost data is refused there where power-loss is asked for.

Exit status of check: 0 kept everything (or the control phase lost something, as it must), 1 lost
something, 3 inconclusive, 4 failed.";

/// Cuts the power of this machine, and says what the log kept.
#[derive(Debug, clap::Args)]
#[command(after_help = STEPS, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// On another machine: take down what is acknowledged, until Ctrl-C.
    Witness(Witness),
    /// On the machine in question: write, and acknowledge to the witness, until the plug is pulled.
    Write(Write),
    /// After the restart: compare what is there with what was acknowledged, and record the verdict.
    Check(Check),
}

#[derive(Debug, clap::Args)]
struct Witness {
    /// Address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:7133")]
    listen: String,
    /// Directory for what it receives; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "logforce-witness")]
    store: PathBuf,
}

/// The run, on the machine in question.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Directory of the run, on the disk in question; new or empty for the first round
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The witness; port 7133 if none is named
    #[arg(long, value_name = "HOST:PORT")]
    witness: String,
    /// Where verdicts are shared [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on Windows
    /// %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Write {
    #[command(flatten)]
    run: RunArgs,
    /// The log's method [default: what a log opened there would use]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    /// What the control phase writes by: buffered, or direct (shows the loss of the device's own
    /// cache; a device that protects its cache loses nothing by it) [default: buffered]
    #[arg(long, value_name = "HOW", value_parser = parse_control)]
    control: Option<Control>,
    /// Size that the log may take up, at least 4MiB; it is truncated when half of it is used
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = arguments::size)]
    size: u64,
    /// Threads that commit and wait, at least 1
    #[arg(long, value_name = "N", default_value = "8", value_parser = arguments::within::<u16>(1, 64))]
    committers: u16,
    /// Threads that submit commits and wait for them later
    #[arg(long, value_name = "N", default_value = "2", value_parser = arguments::within::<u16>(0, 64))]
    submitters: u16,
    /// End after so long without a cut, as in 30s: a dry run
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct Check {
    #[command(flatten)]
    run: RunArgs,
    /// Insist that DIR is this run's, though its file that says so is gone
    #[arg(long = "run", value_name = "ID")]
    id: Option<RunId>,
    /// Write the result as JSON to FILE; - is standard output, and all else goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

fn parse_control(text: &str) -> Result<Control, String> {
    [Control::Buffered, Control::Direct]
        .into_iter()
        .find(|c| c.name() == text)
        .ok_or_else(|| format!("unknown control '{text}'; known: buffered direct"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| e.to_string())
}

impl RunArgs {
    fn cache(&self) -> Option<PathBuf> {
        let default = logforce::disk::calibration::default_cache;
        self.cache.clone().or_else(default)
    }
}

/// Runs the part that was asked for.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.command {
        Command::Witness(args) => witness::run(&args),
        Command::Write(args) => {
            if args.size < logforce_witness::write::LEAST_SIZE {
                bail!(Usage("--size: at least 4MiB".to_owned()));
            }
            write::run(&args)
        }
        Command::Check(args) => check::run(&args),
    }
}

/// The version that is recorded with a verdict.
const TOOL: &str = env!("CARGO_PKG_VERSION");
