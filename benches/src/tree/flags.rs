//! The flags.

use crate::place::Common;
use clap::Parser;
use logforce_terminal::arguments;
use std::time::Duration;

/// The example tree side by side with LMDB, redb and SQLite: the same keys in the same run, each put
/// durable, all of them in turns.
#[derive(Debug, Clone, Parser)]
#[command(name = "tree")]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,

    /// Keys that are loaded first
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub keys: u64,

    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_parser = arguments::within::<u32>(1, 65536))]
    pub value: u32,

    /// Numbers of threads that put
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = arguments::within::<u32>(1, 1024))]
    pub threads: Vec<u32>,

    /// Numbers of threads that read and scan
    #[arg(long, value_delimiter = ',', default_value = "1,4", value_parser = arguments::within::<u32>(1, 256))]
    pub readers: Vec<u32>,

    /// Seconds of a slice
    #[arg(long, default_value = "1", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// How often everybody has a turn with everything; the medians are printed
    #[arg(long, default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Only these, such as lmdb,redb; the tree itself is run all the same
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Make a filesystem (ext4, ext4-nojournal, xfs, btrfs) in an image in --dir, on a loop device
    /// of its own; needs root
    #[arg(long = "loop", value_name = "KIND")]
    pub own_device: Option<String>,

    /// MiB of that filesystem; the image takes only what is written
    #[arg(long, default_value_t = 8192, value_name = "MIB")]
    pub loop_size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_their_defaults() {
        let flags = Flags::try_parse_from(["tree", "--bench"]).unwrap();
        assert_eq!(
            (flags.threads, flags.readers),
            (vec![1, 16, 64], vec![1, 4])
        );
        let line = [
            "tree",
            "--keys",
            "1000",
            "--only",
            "lmdb",
            "--seconds",
            "0.1",
        ];
        assert_eq!(Flags::try_parse_from(line).unwrap().keys, 1000);
        assert!(Flags::try_parse_from(["tree", "--keys", "0"]).is_err());
        assert!(Flags::try_parse_from(["tree", "--value", "65537"]).is_err());
    }
}
