//! Command-line flags.

use crate::place::Common;
use clap::Parser;
use logforce_terminal::arguments;
use std::time::Duration;

/// Compares page files with sorted writes and a sync, and with other stores. All write the same pages in
/// the same run, in turns; each commit is durable.
#[derive(Debug, Clone, Parser)]
#[command(name = "pages")]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,

    /// Size of each file, such as 2GiB
    #[arg(long, default_value = "2GiB", value_parser = arguments::size)]
    pub size: u64,

    /// Size of the log between two checkpoints
    #[arg(long, default_value = "256MiB", value_parser = arguments::size)]
    pub distance: u64,

    /// Cache size of Logforce's page files; a checkpoint starts when a quarter of it has changed
    #[arg(long, default_value = "256MiB", value_parser = arguments::size)]
    pub cache: u64,

    /// Duration of a slice, seconds
    #[arg(long, default_value = "20", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// Number of rounds; medians are printed
    #[arg(long, default_value_t = 3, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Stores to run, such as logged,lmdb; plain writes always run
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Cases to run, by a part of their name, such as burst,skewed-5
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,

    /// Make a filesystem (ext4, ext4-nojournal, xfs, btrfs) in an image in --dir, on a separate loop
    /// device; needs root
    #[arg(long = "loop", value_name = "KIND")]
    pub own_device: Option<String>,

    /// Size of that filesystem, MiB; the image takes only the space that is written
    #[arg(long, default_value_t = 32768, value_name = "MIB")]
    pub loop_size: u64,
}
