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
You need the machine to test and another one that stays on. Power cuts may destroy data on the disk of
DIR, so use a machine whose data you can spare:

  other$    logforce powercut witness
  machine$  logforce powercut write --witness other DIR     pull the plug after a minute, start again
  machine$  logforce powercut check --witness other DIR     the control phase must have lost something
  machine$  logforce powercut write --witness other DIR     pull the plug again, start again
  machine$  logforce powercut check --witness other DIR     the verdict; repeat the last two at will

The first rounds, the control phase, write by a method that is known to be unsafe. If its losses cannot be
seen, losses of the log could not be seen either. After that a log commits by the method under test, and
a small file beside it is never forced. If nothing of that file is missing, there was no power cut. A
killed process, an orderly shutdown and the reset of a virtual machine do not count as power cuts.

The verdict is stored in DIR and in --cache, by filesystem and method. Logs obey it: on that filesystem
they refuse a method that lost data if power-loss is required.

Exit status of check: 0 kept everything (or the control phase lost something, as it must), 1 lost
something, 3 inconclusive, 4 failed.";

/// Tests with real power cuts what the log keeps.
#[derive(Debug, clap::Args)]
#[command(after_help = STEPS, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// On another machine: record what is acknowledged, until Ctrl-C.
    Witness(Witness),
    /// On the machine under test: write, and acknowledge to the witness, until the plug is pulled.
    Write(Write),
    /// After the restart: compare the data with what was acknowledged, and record the verdict.
    Check(Check),
}

#[derive(Debug, clap::Args)]
struct Witness {
    /// Address to listen on; port 0 chooses a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:7133")]
    listen: String,
    /// Directory for the received acknowledgements; created if it is missing
    #[arg(long, value_name = "DIR", default_value = "logforce-witness")]
    store: PathBuf,
}

/// The run, on the machine under test.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Directory of the run, on the disk under test; new or empty for the first round
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Address of the witness; the default port is 7133
    #[arg(long, value_name = "HOST:PORT")]
    witness: String,
    /// Directory of shared verdicts [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on Windows
    /// %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Write {
    #[command(flatten)]
    run: RunArgs,
    /// Commit method of the log [default: the method that a log opened there would use]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    /// Writes of the control phase: buffered, or direct (shows losses of the device's own cache; a
    /// device that protects its cache loses nothing by direct writes) [default: buffered]
    #[arg(long, value_name = "HOW", value_parser = parse_control)]
    control: Option<Control>,
    /// Space that the log may use, at least 4MiB; the log is truncated when half of it is used
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = arguments::size)]
    size: u64,
    /// Threads that commit and wait, at least 1
    #[arg(long, value_name = "N", default_value = "8", value_parser = arguments::within::<u16>(1, 64))]
    committers: u16,
    /// Threads that submit commits and wait for them later
    #[arg(long, value_name = "N", default_value = "2", value_parser = arguments::within::<u16>(0, 64))]
    submitters: u16,
    /// End after DURATION without a power cut, for example 30s: a dry run
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct Check {
    #[command(flatten)]
    run: RunArgs,
    /// Accept DIR as the directory of run ID, even if the file in it that says so is gone
    #[arg(long = "run", value_name = "ID")]
    id: Option<RunId>,
    /// Write the result as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

fn parse_control(text: &str) -> Result<Control, String> {
    [Control::Buffered, Control::Direct]
        .into_iter()
        .find(|c| c.name() == text)
        .ok_or_else(|| format!("unknown control '{text}': use buffered or direct"))
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

/// Runs the chosen part.
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

/// Version that is recorded with a verdict.
const TOOL: &str = env!("CARGO_PKG_VERSION");
