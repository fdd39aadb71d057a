//! `logforce bench map`.

use super::common::{DirArgs, Files};
use super::os;
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_measure::map::{LEAST, Options, PAGE, SIZES};
use logforce_terminal::arguments;
use std::time::Duration;

/// Largest number of pages that a commit changes. They are held in memory, and scattered over the
/// smallest file.
const MOST_PAGES: u64 = 1024;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "map_flags")]
pub struct Args {
    #[command(flatten)]
    place: DirArgs,
    /// Size of the largest file; files of a quarter and a sixteenth of it are measured too. There are
    /// three files of each size, filled beforehand
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = arguments::size)]
    size: u64,
    /// Number of pages that a commit changes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = arguments::within::<u64>(1, MOST_PAGES))]
    pages: u64,
    /// Number of slices of each method and size
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// Duration of each slice in seconds
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = arguments::seconds)]
    slice: Duration,
    /// Use files of at most 256MiB, and 3 slices of 0.1 s
    #[arg(long, conflicts_with_all = ["size", "rounds", "slice"])]
    quick: bool,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_terminal::numbers::bytes;
        if self.size < LEAST {
            bail!(Usage(format!(
                "--size {} is too small: at least {}",
                bytes(self.size),
                bytes(LEAST)
            )));
        }
        self.files.check()?;
        self.place.check()?;
        let (size, rounds, slice) = match self.quick {
            true => (256 << 20, 3, Duration::from_millis(100)),
            false => (self.size, self.rounds, self.slice),
        };
        Ok(Options {
            sizes: SIZES.map(|part| size / part / PAGE * PAGE).to_vec(),
            pages: self.pages,
            rounds,
            slice,
            page_files: true,
            os: os::mapping(),
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    super::run::run(&args.options()?, args.place.dir(), &args.files)
}
