//! Command-line flags.

use crate::place::Common;
use clap::Parser;
use logforce_terminal::arguments;
use std::time::Duration;

/// Compares the example tree with LMDB, redb and SQLite. All put the same keys in the same run, in
/// turns; each put is durable.
#[derive(Debug, Clone, Parser)]
#[command(name = "tree")]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,

    /// Number of keys loaded first
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub keys: u64,

    /// Size of a value, bytes
    #[arg(long, default_value_t = 100, value_parser = arguments::within::<u32>(1, 65536))]
    pub value: u32,

    /// Numbers of putting threads
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = arguments::within::<u32>(1, 1024))]
    pub threads: Vec<u32>,

    /// Numbers of reading and scanning threads
    #[arg(long, value_delimiter = ',', default_value = "1,4", value_parser = arguments::within::<u32>(1, 256))]
    pub readers: Vec<u32>,

    /// Duration of a slice, seconds
    #[arg(long, default_value = "1", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// Number of rounds; medians are printed
    #[arg(long, default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Stores to run, such as lmdb,redb; the example tree always runs
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Make a filesystem (ext4, ext4-nojournal, xfs, btrfs) in an image in --dir, on a separate loop
    /// device; needs root
    #[arg(long = "loop", value_name = "KIND")]
    pub own_device: Option<String>,

    /// Size of that filesystem, MiB; the image takes only the space that is written
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
