//! `logforce bench journal`.

use super::common::{DirsArgs, Files};
use super::places;
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_device::{FileState, Method, Platform};
use logforce_measure::journal::Options;
use logforce_terminal::arguments::{self, chosen, named};
use std::time::Duration;

/// Largest chunk, bytes. A larger one is refused, because a chunk is held in memory.
pub(super) const LARGEST_CHUNK: u64 = 1 << 30;
/// Largest number of writes in flight; each has a thread.
const MOST_IN_FLIGHT: u32 = 256;
/// Default size of each file, bytes.
const SIZE: u64 = 1 << 30;
/// Default duration of the run.
const TIME: Duration = Duration::from_secs(30);

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "journal_flags")]
pub struct Args {
    #[command(flatten)]
    pub(super) place: DirsArgs,
    /// Size of each file; reduced if time or space is short, but not below 64MiB
    /// [default: 1GiB; with --sweep 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    pub(super) size: Option<u64>,
    /// Bytes per commit
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = arguments::size)]
    chunk: u64,
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = arguments::method,
        help = methods_help(Platform::HERE))]
    pub(super) method: Vec<Method>,
    /// File states, separated by commas: fallocated, zeroed, recycled, growing [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_state)]
    file_state: Vec<FileState>,
    /// Seconds that the run may take, preparation included [default: 30; with --sweep 60]
    #[arg(long, value_name = "S", value_parser = arguments::seconds, conflicts_with = "full")]
    pub(super) seconds: Option<Duration>,
    /// Fill the file with commits (65,536 of 16KiB in 1GiB), however long it takes
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) sweep: SweepFlags,
    #[command(flatten)]
    pub(super) files: Files,
}

/// Flags of the sweep.
#[derive(Debug, clap::Args)]
#[group(id = "sweep_flags")]
pub struct SweepFlags {
    /// Measure every method with 1 to 32 writes in flight, by threads and by io_uring if available, in
    /// chunks of 512B to 256KiB: how many writes in flight pay off, at which chunk size?
    #[arg(long, conflicts_with_all = ["full", "chunk", "file_state"])]
    sweep: bool,
    /// With --sweep: writes in flight, separated by commas [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::within::<u32>(1, MOST_IN_FLIGHT))]
    pub(super) depths: Vec<u32>,
    /// With --sweep: sizes of a write, separated by commas [default: 512,1k,2k, … 256k]
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', requires = "sweep",
        value_parser = arguments::size)]
    pub(super) chunks: Vec<u64>,
}

impl SweepFlags {
    /// Returns true if --sweep was given.
    pub fn is_asked_for(&self) -> bool {
        self.sweep
    }
}

/// Returns the help text with the methods of `platform`.
fn methods_help(platform: Platform) -> String {
    let names: Vec<&str> = platform.methods().iter().map(|m| m.name()).collect();
    format!(
        "Methods, separated by commas: {} [default: all]",
        names.join(", ")
    )
}

fn parse_state(text: &str) -> Result<FileState, String> {
    named(text, "file state", &FileState::ALL, FileState::name)
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_terminal::numbers::bytes;
        let size = self.size.unwrap_or(SIZE);
        if self.chunk > LARGEST_CHUNK {
            bail!(Usage(format!(
                "--chunk {} is too large: at most {}",
                bytes(self.chunk),
                bytes(LARGEST_CHUNK)
            )));
        }
        if self.chunk > size {
            bail!(Usage(format!(
                "--chunk {} does not fit into --size {}",
                bytes(self.chunk),
                bytes(size)
            )));
        }
        self.files.check()?;
        Ok(Options {
            size,
            chunk: usize::try_from(self.chunk)?,
            methods: chosen(&self.method, Method::here()),
            states: chosen(&self.file_state, &FileState::ALL),
            logs: true,
            log_methods: match self.method.as_slice() {
                [] => Vec::new(),
                asked => chosen(asked, Method::here()),
            },
            time: (!self.full).then_some(self.seconds.unwrap_or(TIME)),
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let options = args.options()?;
    match args.place.checked()? {
        (dir, None) => super::run::run(&options, dir, &args.files),
        (a, Some(b)) => places::run(&options, [a, b], &args.files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_the_methods_of_the_system_and_no_others() {
        for platform in Platform::ALL {
            let help = methods_help(platform);
            let (_, list) = help.split_once(": ").unwrap();
            let list = list.strip_suffix(" [default: all]").unwrap();
            let named: Vec<&str> = list.split(", ").collect();
            let known: Vec<&str> = platform.methods().iter().map(|m| m.name()).collect();
            assert_eq!(named, known);
        }
    }
}
