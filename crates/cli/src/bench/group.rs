//! `logforce bench group`.

use super::common::{Files, Where};
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_device::Method;
use logforce_measure::group::Options;
use logforce_terminal::arguments;
use std::time::Duration;

/// Largest record, bytes. A larger one is refused, because each thread holds one in memory.
const LONGEST_RECORD: u64 = 1 << 20;
/// Largest number of threads.
const MOST_THREADS: u32 = 1024;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "group_flags")]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Numbers of committing threads, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,16,64,256",
        value_parser = arguments::within::<u32>(1, MOST_THREADS))]
    threads: Vec<u32>,
    /// Record sizes, separated by commas
    #[arg(long, value_name = "SIZE,SIZE", value_delimiter = ',', default_value = "128,16KiB",
        value_parser = arguments::size)]
    records: Vec<u64>,
    /// Number of slices for each number of threads and record size
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// Duration of each slice in seconds
    #[arg(long, value_name = "S", default_value = "0.25", value_parser = arguments::seconds)]
    slice: Duration,
    /// Commit method of the log [default: the library's choice]
    #[arg(long, value_name = "METHOD", value_parser = arguments::method)]
    method: Option<Method>,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_terminal::numbers::bytes;
        if let Some(long) = self.records.iter().find(|&&r| r > LONGEST_RECORD) {
            bail!(Usage(format!(
                "--records {} is too large: at most {}",
                bytes(*long),
                bytes(LONGEST_RECORD)
            )));
        }
        self.files.check()?;
        self.place.check()?;
        Ok(Options {
            threads: self.threads.clone(),
            records: self.records.clone(),
            rounds: self.rounds,
            slice: self.slice,
            method: self.method,
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    super::run::run(&args.options()?, args.place.dir(), &args.files)
}
