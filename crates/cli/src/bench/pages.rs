//! `logforce bench pages`.

use super::common::{DirArgs, Files};
use crate::exit::{End, Usage};
use anyhow::bail;
use logforce_measure::pages::{MOST_PAGES, Options, least_size};
use logforce_terminal::arguments;
use std::time::Duration;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "pages_flags")]
pub struct Args {
    #[command(flatten)]
    place: DirArgs,
    /// Numbers of pages in a commit, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,5,10,20,40,80,160",
        value_parser = arguments::within::<u64>(1, MOST_PAGES))]
    pages: Vec<u64>,
    /// Size of the file, which is filled beforehand
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = arguments::size)]
    size: u64,
    /// Number of slices of each case; the 42 cases of the defaults take half a minute
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = arguments::within::<u32>(1, u32::MAX))]
    rounds: u32,
    /// Duration of each slice in seconds
    #[arg(long, value_name = "S", default_value = "0.07", value_parser = arguments::seconds)]
    slice: Duration,
    /// Write through the system's cache, as in the published results [default: bypass it, as page files do]
    #[arg(long)]
    cached: bool,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        use logforce_terminal::numbers::{bytes, count};
        let most = self.pages.iter().copied().max().unwrap_or(1);
        if self.size < least_size(most) {
            bail!(Usage(format!(
                "--size {} is too small for commits of {}: at least {}",
                bytes(self.size),
                count(most, "page"),
                bytes(least_size(most))
            )));
        }
        self.files.check()?;
        self.place.check()?;
        let mut pages = self.pages.clone();
        pages.sort_unstable();
        pages.dedup();
        Ok(Options {
            pages,
            size: self.size,
            rounds: self.rounds,
            slice: self.slice,
            cached: self.cached,
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    super::run::run(&args.options()?, args.place.dir(), &args.files)
}
