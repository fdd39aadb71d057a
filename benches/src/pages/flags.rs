//! The flags.

use crate::place::Common;
use clap::Parser;
use logforce_terminal::arguments;
use std::time::Duration;

/// Page files side by side with sorted writes and a sync, and with other stores: the same pages in
/// the same run, each commit durable, all of them in turns.
#[derive(Debug, Clone, Parser)]
#[command(name = "pages")]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,

    /// Bytes of each file, such as 2GiB
    #[arg(long, default_value = "2GiB", value_parser = arguments::size)]
    pub size: u64,

    /// Bytes of log between two checkpoints
    #[arg(long, default_value = "256MiB", value_parser = arguments::size)]
    pub distance: u64,

    /// Bytes of memory of our page files; a checkpoint begins where a quarter of it has changed
    #[arg(long, default_value = "256MiB", value_parser = arguments::size)]
    pub cache: u64,

    /// Seconds that each commits at a time
    #[arg(long, default_value = "20", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// How often everybody has a turn; the medians are printed
    #[arg(long, default_value_t = 3, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Only these, such as logged,lmdb; the plain writes are run all the same
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Only cases whose name holds one of these, such as burst,skewed-5
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,

    /// Make a filesystem (ext4, ext4-nojournal, xfs, btrfs) in an image in --dir, on a loop device
    /// of its own; needs root
    #[arg(long = "loop", value_name = "KIND")]
    pub own_device: Option<String>,

    /// MiB of that filesystem; the image takes only what is written
    #[arg(long, default_value_t = 32768, value_name = "MIB")]
    pub loop_size: u64,
}
